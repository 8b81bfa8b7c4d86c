"""Graphs, point clouds and molecules."""

from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter

from .entry import AXES, entry


class GraphConvolution(nn.Module):
    """Simple GCN layer, similar to https://arxiv.org/abs/1609.02907"""

    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / self.weight.size(1) ** 0.5
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        if self.bias is not None:
            return output + self.bias
        else:
            return output

    def __repr__(self):
        return f"{self.__class__.__name__} ({self.in_features} -> {self.out_features})"


class GCN(nn.Module):
    def __init__(self, nfeat=6, nhid=8, nclass=3, dropout=0.5):
        super(GCN, self).__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass, bias=False)
        self.dropout = dropout

    def forward(self, x, adj):
        adj = (adj > 0).float() + torch.eye(adj.shape[0])
        d = adj.sum(1).clamp(min=1).rsqrt()
        adj = d[:, None] * adj * d[None, :]
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha=0.2, concat=True):
        super().__init__()
        self.concat = concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)
        self.out_features = out_features

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        e = self._prepare_attentional_mechanism_input(Wh)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime

    def _prepare_attentional_mechanism_input(self, Wh):
        Wh1 = torch.matmul(Wh, self.a[: self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features :, :])
        return self.leakyrelu(Wh1 + Wh2.T)


class GAT(nn.Module):
    def __init__(self, nfeat=6, nhid=4, nclass=3, nheads=3):
        super().__init__()
        self.attentions = [GraphAttentionLayer(nfeat, nhid) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, concat=False)

    def forward(self, x, adj):
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        return F.log_softmax(F.elu(self.out_att(x, adj)), dim=1)


class MessagePassing(nn.Module):
    """Edges as an index of shape [2, E]; sums, means and maxima at the targets."""

    aggregations = ("sum", "mean", "max")

    def __init__(self, dim=5, hid=6):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * dim + 2, hid), nn.ReLU())
        self.upd = nn.GRUCell(hid * len(self.aggregations), dim)
        self.readout = nn.Linear(dim, 2)

    def aggregate(self, m, index, n, how):
        if how == "sum":
            return torch.zeros(n, m.shape[1]).index_add_(0, index, m)
        index = index.unsqueeze(-1).expand_as(m)
        if how == "mean":
            return torch.zeros(n, m.shape[1]).scatter_reduce(0, index, m, reduce="mean", include_self=False)
        return torch.full((n, m.size(1)), 0.0).scatter_reduce_(0, index, m, "amax", include_self=False)

    def forward(self, x, edge_index, edge_attr: Optional[torch.Tensor] = None, batch=None):
        src, dst = edge_index
        m = self.msg(torch.cat([x[src], x[dst], edge_attr], dim=-1))
        agg = torch.cat([self.aggregate(m, dst, x.size(0), how) for how in self.aggregations], -1)
        h = self.upd(agg, x)
        if batch is None:
            return self.readout(h.sum(0))
        pooled = torch.zeros(3, h.size(1)).scatter_add_(0, batch[:, None].expand(-1, h.size(1)), h)
        return self.readout(pooled)


class EGNN(nn.Module):
    """E(n) equivariant layers: features are invariant, coordinates move."""

    class Layer(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.edge_mlp = nn.Sequential(nn.Linear(2 * dim + 1, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU())
            self.coord_mlp = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1, bias=False))
            self.node_mlp = nn.Sequential(nn.Linear(dim + 8, 8), nn.SiLU(), nn.Linear(8, dim))

        def forward(self, h, x):
            n = h.shape[1]
            rel = x[:, :, None] - x[:, None]
            dist = (rel**2).sum(-1, keepdim=True)
            hi, hj = h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1)
            m = self.edge_mlp(torch.cat([hi, hj, dist], -1))
            m = m * (1 - torch.eye(n))[None, :, :, None]
            x = x + (rel / (dist.sqrt() + 1) * self.coord_mlp(m)).mean(2)
            return h + self.node_mlp(torch.cat([h, m.sum(2)], -1)), x

    def __init__(self, dim=4, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(self.Layer(dim) for _ in range(layers))

    def forward(self, h, x):
        for layer in self.layers:
            h, x = layer(h, x)
        return h, x


class SchNet(nn.Module):
    def __init__(self, hidden=8, num_gaussians=6, cutoff=5.0):
        super().__init__()
        self.embedding = nn.Embedding(20, hidden, padding_idx=0)
        offset = torch.linspace(0.0, cutoff, num_gaussians)
        self.coeff = -0.5 / (offset[1] - offset[0]).item() ** 2
        self.register_buffer("offset", offset)
        self.filter = nn.Sequential(nn.Linear(num_gaussians, hidden), nn.Softplus(), nn.Linear(hidden, hidden))
        self.lin = nn.Linear(hidden, 1)
        self.cutoff = cutoff

    def forward(self, z, pos):
        d = torch.cdist(pos, pos)
        rbf = torch.exp(self.coeff * (d.unsqueeze(-1) - self.offset) ** 2)
        C = 0.5 * (torch.cos(d * torch.pi / self.cutoff) + 1.0) * (d < self.cutoff)
        W = self.filter(rbf) * C.unsqueeze(-1)
        h = self.embedding(z)
        h = h + torch.einsum("bijf,bjf->bif", W, h)
        energy = self.lin(F.softplus(h) - torch.log(torch.tensor(2.0)))
        return torch.sum(energy * (z != 0).unsqueeze(-1), dim=(1, 2))


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.conv = nn.Conv1d(k, 8, 1)
        self.bn = nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, k * k)
        self.k = k

    def forward(self, x):
        x = torch.max(F.relu(self.bn(self.conv(x))), 2, keepdim=True)[0].view(-1, 8)
        iden = torch.eye(self.k).flatten()[None].repeat(x.size(0), 1)
        return (self.fc(x) + iden).view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stn = TNet(3)
        self.fstn = TNet(8)
        self.conv1, self.bn1 = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8)
        self.conv2, self.bn2 = nn.Conv1d(8, 16, 1), nn.BatchNorm1d(16)
        self.fc = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, classes))

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        trans_feat = self.fstn(x)
        x = torch.bmm(x.transpose(2, 1), trans_feat).transpose(2, 1)
        x = self.bn2(self.conv2(x))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, 16)
        return F.log_softmax(self.fc(x), dim=-1), trans, trans_feat


def knn(x, k):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    return (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]


def get_graph_feature(x, k):
    batch_size, num_dims, num_points = x.size()
    idx = knn(x, k=k)
    idx_base = torch.arange(0, batch_size).view(-1, 1, 1) * num_points
    idx = (idx + idx_base).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(batch_size * num_points, -1)[idx, :]
    feature = feature.view(batch_size, num_points, k, num_dims)
    x = x.view(batch_size, num_points, 1, num_dims).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class DGCNN(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.k = k
        self.conv1 = nn.Sequential(nn.Conv2d(6, 8, kernel_size=1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(negative_slope=0.2))
        self.linear = nn.Linear(16, 5)

    def forward(self, x):
        x = self.conv1(get_graph_feature(x, k=self.k)).max(dim=-1, keepdim=False)[0]
        x1 = F.adaptive_max_pool1d(x, 1).view(x.size(0), -1)
        x2 = F.adaptive_avg_pool1d(x, 1).view(x.size(0), -1)
        return self.linear(torch.cat((x1, x2), 1))


class DeepSets(nn.Module):
    def __init__(self, phi=None, rho=None):
        super().__init__()
        self.phi = phi or nn.Sequential(nn.Linear(3, 8), nn.ELU(), nn.Linear(8, 8))
        self.rho = rho or nn.Sequential(nn.Linear(16, 8), nn.ELU(), nn.Linear(8, 1))

    def forward(self, x, mask):
        h = self.phi(x) * (m := mask.unsqueeze(-1).to(x))
        mean = h.sum(-2) / m.sum(-2).clamp_min(1)
        top = h.masked_fill(~mask[..., None], float("-inf")).amax(-2).nan_to_num(neginf=0.0)
        return self.rho(torch.cat([mean, top], dim=-1)).squeeze(-1)


class TopKPool(nn.Module):
    """Keeps the best nodes of each graph and their part of the adjacency (Graph U-Net's pooling)."""

    def __init__(self, dim=5, keep=3):
        super().__init__()
        self.p = nn.Parameter(torch.randn(dim))
        self.keep = keep

    def forward(self, x, adj):
        score = x @ self.p / self.p.norm()
        values, idx = torch.topk(score, self.keep, dim=1)
        x = x.gather(1, idx[..., None].expand(-1, -1, x.shape[-1])) * torch.tanh(values)[..., None]
        b = torch.arange(x.shape[0])[:, None, None]
        adj = adj[b, idx[:, :, None], idx[:, None, :]]
        return x, adj, idx


class TreeLSTM(nn.Module):
    """Child sums over a forest whose nodes are sorted by depth; parents are an index."""

    def __init__(self, dim=4, hid=5, depth=3):
        super().__init__()
        self.iou = nn.Linear(dim + hid, 3 * hid)
        self.f = nn.Linear(dim + hid, hid)
        self.hid, self.depth = hid, depth

    def forward(self, x, parent):
        h = c = torch.zeros(x.shape[0], self.hid)
        for _ in range(self.depth):
            f = torch.sigmoid(self.f(torch.cat([x[parent], h], 1)))
            h_sum = torch.zeros_like(h).index_add(0, parent, h)
            fc = torch.zeros_like(c).index_add(0, parent, f * c)
            i, o, u = self.iou(torch.cat([x, h_sum], 1)).chunk(3, 1)
            c = i.sigmoid() * u.tanh() + fc
            h = o.sigmoid() * c.tanh()
        return h[0]


def _graph(s, g):
    n, e = s["nodes"], s["edges"]
    return {
        "x": torch.randn(n, 5, generator=g),
        "edge_index": torch.randint(0, n, (2, e), generator=g),
        "edge_attr": torch.randn(e, 2, generator=g),
        "batch": torch.randint(0, 3, (n,), generator=g),
    }


_GRAPH_AXES = {"x": {0: "nodes"}, "edge_index": {1: "edges"}, "edge_attr": {0: "edges"}, "batch": {0: "nodes"}}


def _forest(s, g):
    n = s["nodes"]
    parent = torch.cat([torch.zeros(1), torch.floor(torch.rand(n - 1, generator=g) * torch.arange(1, n))])
    return {"x": torch.randn(n, 4, generator=g), "parent": parent.long()}


MODELS = [
    entry("gcn", GCN, "x=f32[n,6] adj=f32[n,n]", dynamic=AXES, n=(7, 3, 5, 12)),
    entry("gat", GAT, "x=f32[n,6] adj=f32[n,n]", dynamic=AXES, n=(7, 3, 5, 12)),
    entry("message_passing", MessagePassing, _graph, dynamic=_GRAPH_AXES, nodes=(7, 4, 6, 12), edges=(12, 5, 9, 30)),
    entry("egnn", EGNN, "h=f32[batch,n,4] x=f32[batch,n,3]", dynamic=AXES, batch=2, n=(5, 2, 4, 9)),
    entry("schnet", SchNet, "z=i64[batch,atoms]<20 pos=f32[batch,atoms,3]", dynamic=AXES, batch=2, atoms=(6, 2, 5, 9)),
    entry("pointnet", PointNet, "x=f32[batch,3,points]", dynamic=AXES, batch=2, points=(10, 4, 1, 17)),
    entry("dgcnn", DGCNN, "x=f32[batch,3,points]", dynamic=AXES, batch=2, points=(10, 5, 6, 17)),
    entry("deep_sets", DeepSets, "x=f32[batch,n,3] mask=bool[batch,n]", dynamic=AXES, batch=2, n=(6, 2, 5, 9)),
    entry("graph_top_k_pool", TopKPool, "x=f32[batch,n,5] adj=f32[batch,n,n]", dynamic=AXES, batch=2, n=(6, 4, 5, 9)),
    entry("tree_lstm", TreeLSTM, _forest, dynamic={"x": {0: "nodes"}, "parent": {0: "nodes"}}, nodes=(7, 3, 5, 12)),
]
