"""Rows of tables: recommenders, classic statistics, metric learning, text classifiers."""

from typing import Dict, List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class DLRM(nn.Module):
    def create_mlp(self, ln, sigmoid_layer):
        layers = nn.ModuleList()
        for i in range(0, ln.size - 1):
            n, m = int(ln[i]), int(ln[i + 1])
            LL = nn.Linear(n, m, bias=True)
            W = np.random.default_rng(i).normal(0.0, np.sqrt(2 / (m + n)), size=(m, n)).astype(np.float32)
            LL.weight.data = torch.tensor(W, requires_grad=True)
            layers.append(LL)
            layers.append(nn.Sigmoid() if i == sigmoid_layer else nn.ReLU())
        return torch.nn.Sequential(*layers)

    def __init__(self, m_spa=4, ln_emb=(10, 20, 30), ln_bot=(5, 8, 4), ln_top=(10, 6, 1), arch_interaction_itself=False):
        super().__init__()
        self.emb_l = nn.ModuleList([nn.EmbeddingBag(n, m_spa, mode="sum") for n in ln_emb])
        self.bot_l = self.create_mlp(np.array(ln_bot), -1)
        self.top_l = self.create_mlp(np.array(ln_top), len(ln_top) - 2)
        self.arch_interaction_itself = arch_interaction_itself

    def interact_features(self, x, ly):
        (batch_size, d) = x.shape
        T = torch.cat([x] + ly, dim=1).view((batch_size, -1, d))
        Z = torch.bmm(T, torch.transpose(T, 1, 2))
        _, ni, nj = Z.shape
        offset = 1 if self.arch_interaction_itself else 0
        li = torch.tensor([i for i in range(ni) for j in range(i + offset)])
        lj = torch.tensor([j for i in range(nj) for j in range(i + offset)])
        Zflat = Z[:, li, lj]
        return torch.cat([x] + [Zflat], dim=1)

    def forward(self, dense_x, lS_i: List[torch.Tensor]):
        x = self.bot_l(dense_x)
        ly = [emb(idx) for emb, idx in zip(self.emb_l, lS_i)]
        return self.top_l(self.interact_features(x, ly)).clamp(min=1e-4, max=1 - 1e-4)


class FeaturesLinear(nn.Module):
    def __init__(self, field_dims, output_dim=1):
        super().__init__()
        self.fc = nn.Embedding(sum(field_dims), output_dim)
        self.bias = nn.Parameter(torch.zeros((output_dim,)))
        self.offsets = np.array((0, *np.cumsum(field_dims)[:-1]), dtype=np.int64)

    def forward(self, x):
        x = x + x.new_tensor(self.offsets).unsqueeze(0)
        return torch.sum(self.fc(x), dim=1) + self.bias


class DeepFM(nn.Module):
    def __init__(self, field_dims=(4, 4, 4, 4), embed_dim=5, mlp_dims=(8, 6), dropout=0.2):
        super().__init__()
        self.linear = FeaturesLinear(field_dims)
        self.embedding = nn.Embedding(sum(field_dims), embed_dim)
        self.offsets = self.linear.offsets
        input_dim, layers = len(field_dims) * embed_dim, []
        for d in mlp_dims:
            layers.append(nn.Linear(input_dim, d))
            layers.append(nn.BatchNorm1d(d))
            layers.append(nn.ReLU())
            layers.append(nn.Dropout(p=dropout))
            input_dim = d
        layers.append(nn.Linear(input_dim, 1))
        self.mlp = nn.Sequential(*layers)

    def fm(self, x):
        square_of_sum = torch.sum(x, dim=1) ** 2
        sum_of_square = torch.sum(x**2, dim=1)
        return 0.5 * torch.sum(square_of_sum - sum_of_square, dim=1, keepdim=True)

    def forward(self, x):
        e = self.embedding(x + x.new_tensor(self.offsets).unsqueeze(0))
        y = self.linear(x) + self.fm(e) + self.mlp(e.view(e.size(0), -1))
        return torch.sigmoid(y.squeeze(1))


class WideAndDeep(nn.Module):
    def __init__(self, columns: Dict[str, int] = {"job": 7, "city": 9}, numeric=3):
        super().__init__()
        self.embeds = nn.ModuleDict({name: nn.Embedding(n, 4) for name, n in columns.items()})
        self.wide = nn.Linear(sum(columns.values()), 1)
        self.deep = nn.Sequential(nn.Linear(4 * len(columns) + numeric, 8), nn.PReLU(8), nn.Linear(8, 1))
        self.columns = columns

    def forward(self, features: Dict[str, torch.Tensor]) -> torch.Tensor:
        onehots = torch.cat([F.one_hot(features[c], n).float() for c, n in self.columns.items()], 1)
        deep = torch.cat([self.embeds[c](features[c]) for c in self.columns] + [features["numeric"]], 1)
        return self.wide(onehots) + self.deep(deep)


class NCF(nn.Module):
    def __init__(self, user_num=12, item_num=15, factor_num=4, num_layers=2):
        super().__init__()
        self.embed_user_GMF = nn.Embedding(user_num, factor_num)
        self.embed_item_GMF = nn.Embedding(item_num, factor_num)
        self.embed_user_MLP = nn.Embedding(user_num, factor_num * (2 ** (num_layers - 1)))
        self.embed_item_MLP = nn.Embedding(item_num, factor_num * (2 ** (num_layers - 1)))
        MLP_modules = []
        for i in range(num_layers):
            input_size = factor_num * (2 ** (num_layers - i))
            MLP_modules.append(nn.Dropout(p=0.1))
            MLP_modules.append(nn.Linear(input_size, input_size // 2))
            MLP_modules.append(nn.ReLU())
        self.MLP_layers = nn.Sequential(*MLP_modules)
        self.predict_layer = nn.Linear(factor_num * 2, 1)

    def forward(self, user, item):
        output_GMF = self.embed_user_GMF(user) * self.embed_item_GMF(item)
        interaction = torch.cat((self.embed_user_MLP(user), self.embed_item_MLP(item)), -1)
        output_MLP = self.MLP_layers(interaction)
        return self.predict_layer(torch.cat((output_GMF, output_MLP), -1)).view(-1)


def sparsemax(z, dim=-1):
    zs, _ = torch.sort(z, descending=True, dim=dim)
    k = torch.arange(1, z.size(dim) + 1, dtype=z.dtype)
    cum = zs.cumsum(dim)
    support = 1 + k * zs > cum
    k_z = support.sum(dim, keepdim=True)
    tau = (cum.gather(dim, k_z - 1) - 1) / k_z.to(z.dtype)
    return torch.clamp(z - tau, min=0)


class TabNet(nn.Module):
    def __init__(self, inp=8, n_d=4, n_a=4, n_steps=3, gamma=1.3):
        super().__init__()
        self.bn = nn.BatchNorm1d(inp, momentum=0.01)
        self.shared = nn.Linear(inp, 2 * (n_d + n_a), bias=False)
        self.splitter, self.n_d, self.gamma = nn.Linear(n_d + n_a, n_d + n_a), n_d, gamma
        self.steps = nn.ModuleList(
            [
                nn.ModuleDict({"att": nn.Linear(n_a, inp, bias=False), "bn": nn.BatchNorm1d(inp), "ft": nn.Linear(n_d + n_a, 2 * (n_d + n_a))})
                for _ in range(n_steps)
            ]
        )
        self.final = nn.Linear(n_d, 2)

    def forward(self, x):
        x = self.bn(x)
        prior, total, loss = torch.ones_like(x), 0, 0
        a = F.glu(self.shared(x))[:, self.n_d :]
        for step in self.steps:
            M = sparsemax(step["bn"](step["att"](a)) * prior)
            loss += torch.mean(torch.sum(torch.mul(M, torch.log(M + 1e-15)), dim=1))
            prior = torch.mul(self.gamma - M, prior)
            h = F.glu(step["ft"](F.glu(self.shared(M * x)))) * 0.5**0.5
            d, a = h[:, : self.n_d], h[:, self.n_d :]
            total = total + F.relu(d)
        return self.final(total), loss / len(self.steps)


class GaussianMixture(nn.Module):
    def __init__(self, k=4, d=3):
        super().__init__()
        self.logits = nn.Parameter(torch.randn(k))
        self.mu = nn.Parameter(torch.randn(k, d))
        self.L = nn.Parameter(torch.randn(k, d, d))

    @property
    def tril(self):
        return self.L.tril(-1) + torch.diag_embed(F.softplus(torch.diagonal(self.L, dim1=-2, dim2=-1)))

    def forward(self, x):
        d = x.size(-1)
        diff = (x[:, None] - self.mu).unsqueeze(-1)
        z = torch.linalg.solve_triangular(self.tril, diff, upper=False).squeeze(-1)
        logdet = self.tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        logp = -0.5 * (z.pow(2).sum(-1) + d * np.log(2 * np.pi)) - logdet + self.logits.log_softmax(0)
        return logp.logsumexp(1), logp.softmax(1), logp.argmax(1)


class KNNClassifier(nn.Module):
    def __init__(self, n=20, d=4, classes=3, k=5):
        super().__init__()
        g = torch.Generator().manual_seed(3)
        self.register_buffer("bank", torch.randn(n, d, generator=g))
        self.register_buffer("labels", torch.randint(classes, (n,), generator=g))
        self.k, self.classes = k, classes

    def forward(self, q):
        dist, idx = torch.cdist(q, self.bank, p=2).topk(self.k, largest=False, sorted=True)
        votes = torch.zeros(q.size(0), self.classes).scatter_add_(1, self.labels[idx], 1 / (dist + 1e-3))
        return votes.argmax(dim=1), votes / votes.sum(1, True)


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d((2, 3)))
        self.fc = nn.Linear(24, 5)

    def forward_once(self, x):
        output = self.cnn(x)
        output = output.view(output.size()[0], -1)
        return self.fc(output)

    def forward(self, input1, input2, label=None):
        output1, output2 = self.forward_once(input1), self.forward_once(input2)
        distance = F.pairwise_distance(output1, output2)
        if label is None:
            return distance
        margin = 2.0
        loss = torch.mean((1 - label) * torch.pow(distance, 2) + label * torch.pow(torch.clamp(margin - distance, min=0.0), 2))
        return distance, loss


class ArcFace(nn.Module):
    def __init__(self, in_features=6, out_features=5, s=30.0, m=0.50, easy_margin=False):
        super().__init__()
        self.s, self.easy_margin = s, easy_margin
        self.weight = nn.Parameter(torch.FloatTensor(out_features, in_features))
        nn.init.xavier_uniform_(self.weight)
        self.cos_m, self.sin_m = np.cos(m).item(), np.sin(m).item()
        self.th, self.mm = np.cos(np.pi - m).item(), (np.sin(np.pi - m) * m).item()

    def forward(self, input, label):
        cosine = F.linear(F.normalize(input), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        if self.easy_margin:
            phi = torch.where(cosine > 0, phi, cosine)
        else:
            phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros(cosine.size())
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
        output *= self.s
        return output


class TextCNN(nn.Module):
    def __init__(self, vocab=30, D=6, Co=4, Ks=[2, 3, 4], C=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, D)
        self.convs = nn.ModuleList([nn.Conv2d(1, Co, (K, D)) for K in Ks])
        self.fc1 = nn.Linear(len(Ks) * Co, C)

    def forward(self, x):
        x = self.embed(x)
        x = x.unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc1(torch.cat(x, 1))


class CharCNN(nn.Module):
    def __init__(self, alphabet=20, length=60):
        super().__init__()
        self.alphabet = alphabet
        self.conv = nn.Sequential(nn.Conv1d(alphabet, 8, 7), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(8, 8, 3), nn.Threshold(1e-6, 0), nn.MaxPool1d(3))
        with torch.no_grad():
            n = self.conv(torch.zeros(1, alphabet, length)).numel()
        self.fc = nn.Linear(n, 4)

    def forward(self, ids):
        x = torch.eye(self.alphabet)[ids].transpose(1, 2)
        return self.fc(self.conv(x).flatten(start_dim=1))


class BilinearPooling(nn.Module):
    """Bilinear CNN: outer products of two feature maps, signed root, normalised."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2), nn.Conv2d(3, 5, 3, 2)
        self.merge = nn.Bilinear(4, 5, 2)
        self.fc = nn.Linear(20, 3)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        N = a.size(0)
        phi = torch.bmm(a.view(N, 4, -1), b.view(N, 5, -1).transpose(1, 2)) / a[0, 0].numel()
        phi = phi.reshape(N, 4 * 5)
        phi = F.normalize(phi.sign() * phi.abs().add(1e-5).sqrt())
        return self.fc(phi), self.merge(a.mean((2, 3)), b.amax((2, 3)))


MODELS = [
    entry("dlrm", DLRM, "dense_x=f32[batch,5] lS_i.0=i64[batch,3]<10 lS_i.1=i64[batch,2]<20 lS_i.2=i64[batch,4]<30", dynamic="batch", batch=3),
    entry("deep_fm", DeepFM, "x=i64[batch,4]<4", dynamic="batch", batch=3),
    entry("wide_and_deep", WideAndDeep, "features.job=i64[batch]<7 features.city=i64[batch]<9 features.numeric=f32[batch,3]", batch=3),
    entry("ncf", NCF, "user=i64[batch]<12 item=i64[batch]<15", batch=4),
    entry("tabnet", TabNet, "x=f32[batch,8]", batch=3),
    entry("gaussian_mixture", GaussianMixture, "x=f32[batch,3]", batch=5),
    entry("knn", KNNClassifier, "q=f32[batch,4]", batch=3),
    entry("siamese", SiameseNetwork, "input1=f32[batch,1,9,8] input2=f32[batch,1,9,8]", batch=3),
    entry("siamese_loss", SiameseNetwork, "input1=f32[batch,1,9,8] input2=f32[batch,1,9,8] label=i64[batch]<2", batch=3),
    entry("arcface", ArcFace, "input=f32[batch,6] label=i64[batch]<5", batch=3),
    entry("text_cnn", TextCNN, "x=i64[batch,n]<30", dynamic=AXES, batch=2, n=9, fixed=("n",), note="pools of a size's width fix it"),
    entry("char_cnn", CharCNN, "ids=i64[batch,60]<20", dynamic="batch", batch=2),
    entry("bilinear_pooling", BilinearPooling, "x=f32[batch,3,9,9]", batch=2),
]
