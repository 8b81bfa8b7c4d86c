"""Functions of coordinates, solvers of equations, memories and networks that write networks."""

import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class Embedder:
    """NeRF's positional encoding, as closures in a list."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs
        self.create_embedding_fn()

    def create_embedding_fn(self):
        embed_fns = []
        d = self.kwargs["input_dims"]
        out_dim = 0
        if self.kwargs["include_input"]:
            embed_fns.append(lambda x: x)
            out_dim += d
        freq_bands = 2.0 ** torch.linspace(0.0, self.kwargs["num_freqs"] - 1, steps=self.kwargs["num_freqs"])
        for freq in freq_bands.tolist():
            for p_fn in [torch.sin, torch.cos]:
                embed_fns.append(lambda x, p_fn=p_fn, freq=freq: p_fn(x * freq))
                out_dim += d
        self.embed_fns = embed_fns
        self.out_dim = out_dim

    def embed(self, inputs):
        return torch.cat([fn(inputs) for fn in self.embed_fns], -1)


class NeRF(nn.Module):
    def __init__(self, D=3, W=16, skips=(1,), near=2.0, far=6.0, samples=5):
        super().__init__()
        self.embedder = Embedder(input_dims=3, include_input=True, num_freqs=3)
        self.view_embedder = Embedder(input_dims=3, include_input=False, num_freqs=2)
        ch, views = self.embedder.out_dim, self.view_embedder.out_dim
        self.skips = skips
        self.pts_linears = nn.ModuleList([nn.Linear(ch, W)] + [nn.Linear(W, W) if i not in skips else nn.Linear(W + ch, W) for i in range(D - 1)])
        self.views_linears = nn.ModuleList([nn.Linear(views + W, W // 2)])
        self.feature_linear, self.alpha_linear, self.rgb_linear = nn.Linear(W, W), nn.Linear(W, 1), nn.Linear(W // 2, 3)
        self.near, self.far, self.samples = near, far, samples

    def field(self, pts, dirs):
        input_pts, input_views = self.embedder.embed(pts), self.view_embedder.embed(dirs)
        h = input_pts
        for i, l in enumerate(self.pts_linears):
            h = self.pts_linears[i](h)
            h = F.relu(h)
            if i in self.skips:
                h = torch.cat([input_pts, h], -1)
        alpha = self.alpha_linear(h)
        h = torch.cat([self.feature_linear(h), input_views], -1)
        for i, l in enumerate(self.views_linears):
            h = F.relu(l(h))
        return torch.sigmoid(self.rgb_linear(h)), F.softplus(alpha[..., 0])

    def forward(self, rays_o, rays_d):
        t = torch.linspace(0.0, 1.0, steps=self.samples)
        z_vals = self.near * (1.0 - t) + self.far * t
        z_vals = z_vals.expand([rays_o.shape[0], self.samples])
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        viewdirs = rays_d / torch.norm(rays_d, dim=-1, keepdim=True)
        rgb, sigma = self.field(pts, viewdirs[:, None].expand(pts.shape))
        dists = z_vals[..., 1:] - z_vals[..., :-1]
        dists = torch.cat([dists, torch.Tensor([1e10]).expand(dists[..., :1].shape)], -1)
        alpha = 1.0 - torch.exp(-sigma * dists)
        weights = alpha * torch.cumprod(torch.cat([torch.ones((alpha.shape[0], 1)), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
        rgb_map = torch.sum(weights[..., None] * rgb, -2)
        depth_map = torch.sum(weights * z_vals, -1)
        return {"rgb": rgb_map, "depth": depth_map, "acc": torch.sum(weights, -1), "weights": weights}


class SineLayer(nn.Module):
    def __init__(self, in_features, out_features, is_first=False, omega_0=30):
        super().__init__()
        self.omega_0, self.is_first, self.in_features = omega_0, is_first, in_features
        self.linear = nn.Linear(in_features, out_features)
        self.init_weights()

    def init_weights(self):
        with torch.no_grad():
            bound = 1 / self.in_features if self.is_first else math.sqrt(6 / self.in_features) / self.omega_0
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, input):
        return torch.sin(self.omega_0 * self.linear(input))


class Siren(nn.Module):
    def __init__(self, hidden=12, layers=2):
        super().__init__()
        self.net = [SineLayer(2, hidden, is_first=True)]
        for _ in range(layers):
            self.net.append(SineLayer(hidden, hidden))
        self.net.append(nn.Linear(hidden, 1))
        self.net = nn.Sequential(*self.net)

    def forward(self, coords):
        coords = coords.clone().detach().requires_grad_(True)
        return self.net(coords), coords


class HashGrid(nn.Module):
    """Instant-NGP's encoding: corners of a grid cell, hashed, mixed trilinearly."""

    primes = (1, 2654435761, 805459861)

    def __init__(self, levels=3, features=2, log2_size=5, base=4, growth=1.5):
        super().__init__()
        self.size = 2**log2_size
        self.tables = nn.ModuleList([nn.Embedding(self.size, features) for _ in range(levels)])
        self.resolutions = [math.floor(base * growth**i) for i in range(levels)]
        self.register_buffer("corners", torch.tensor(list(itertools.product([0, 1], repeat=3))))

    def hash(self, c):
        h = c[..., 0] * self.primes[0]
        for i in (1, 2):
            h = torch.bitwise_xor(h, c[..., i] * self.primes[i])
        return h & (self.size - 1)

    def forward(self, xyz):
        xyz = torch.sigmoid(xyz)
        out = []
        for table, res in zip(self.tables, self.resolutions):
            p = xyz * res
            low = p.floor().long()
            frac = (p - low)[:, None]
            w = torch.where(self.corners.bool(), frac, 1 - frac).prod(-1, keepdim=True)
            out.append((table(self.hash(low[:, None] + self.corners)) * w).sum(1))
        return torch.cat(out, -1)


class KANLayer(nn.Module):
    """B-splines by the recursion of Cox and de Boor, beside a SiLU."""

    def __init__(self, i, o, grid=4, order=3):
        super().__init__()
        h = 2 / grid
        self.order = order
        self.register_buffer("grid", (torch.arange(-order, grid + order + 1) * h - 1).expand(i, -1).contiguous())
        self.base_weight = nn.Parameter(torch.randn(o, i) / i)
        self.spline_weight = nn.Parameter(torch.randn(o, i, grid + order) / i)

    def b_splines(self, x):
        x = x.unsqueeze(-1)
        grid = self.grid
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            bases = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * bases[:, :, :-1] + (grid[:, k + 1 :] - x) / (
                grid[:, k + 1 :] - grid[:, 1:(-k)]
            ) * bases[:, :, 1:]
        return bases

    def forward(self, x):
        base = F.linear(F.silu(x), self.base_weight)
        spline = F.linear(self.b_splines(x).view(x.size(0), -1), self.spline_weight.view(self.spline_weight.size(0), -1))
        return base + spline


class RBFNetwork(nn.Module):
    basis = {
        "gaussian": lambda alpha: torch.exp(-1 * alpha.pow(2)),
        "multiquadric": lambda alpha: (torch.ones_like(alpha) + alpha.pow(2)).pow(0.5),
    }

    def __init__(self, kind="gaussian"):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(6, 3))
        self.log_sigmas = nn.Parameter(torch.zeros(6))
        self.basis_func = self.basis[kind]
        self.linear = nn.Linear(6, 2)

    def forward(self, input):
        size = (input.size(0), 6, 3)
        x = input.unsqueeze(1).expand(size)
        c = self.centres.unsqueeze(0).expand(size)
        distances = (x - c).pow(2).sum(-1).pow(0.5) / torch.exp(self.log_sigmas).unsqueeze(0)
        return self.linear(self.basis_func(distances))


def euler(f, t, dt, y):
    return y + dt * f(t, y)


def rk4(f, t, dt, y):
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt * k1 / 2)
    k3 = f(t + dt / 2, y + dt * k2 / 2)
    k4 = f(t + dt, y + dt * k3)
    return y + (k1 + 2 * k2 + 2 * k3 + k4) * dt / 6


class ODENet(nn.Module):
    def __init__(self, method=rk4, steps=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 2))
        self.step, self.ts = method, torch.linspace(0, 1, steps + 1)

    def dynamics(self, t, y):
        t = torch.ones_like(y[:, :1]) * t
        return self.net(torch.cat([y, t], dim=1))

    def forward(self, y0):
        trajectory = [y0]
        for t0, t1 in zip(self.ts[:-1], self.ts[1:]):
            trajectory.append(self.step(self.dynamics, t0, t1 - t0, trajectory[-1]))
        return torch.stack(trajectory)


class NBody(nn.Module):
    """Leapfrog with pairwise forces: no layers, a few parameters."""

    def __init__(self, steps=3):
        super().__init__()
        self.log_g = nn.Parameter(torch.tensor(0.0))
        self.softening = 0.1
        self.steps = steps

    def acceleration(self, x, m):
        r = x[:, None] - x
        inv = ((r * r).sum(-1) + self.softening**2) ** -1.5
        return -self.log_g.exp() * torch.einsum("ijk,ij,j->ik", r, inv, m)

    def forward(self, x, v, m, dt=0.01):
        m = m.abs()
        a = self.acceleration(x, m)
        for _ in range(self.steps):
            v = v + 0.5 * dt * a
            x = x + dt * v
            a = self.acceleration(x, m)
            v = v + 0.5 * dt * a
        kinetic = 0.5 * (m * v.square().sum(-1)).sum()
        return x, v, kinetic


class HyperNetwork(nn.Module):
    def __init__(self, z_dim=4, inp=3, out=5):
        super().__init__()
        self.inp, self.out = inp, out
        self.gen = nn.Linear(z_dim, inp * out + out)

    def forward(self, x, z):
        theta = self.gen(z)
        w, b = theta.split([self.inp * self.out, self.out], dim=-1)
        w = w.view(-1, self.out, self.inp)
        y = torch.baddbmm(b.unsqueeze(-1), w, x.unsqueeze(-1)).squeeze(-1)
        return y, sum(t.pow(2).mean() for t in (w, b))


class NeuralTuringMachine(nn.Module):
    def __init__(self, inp=3, hid=6, n=5, m=4):
        super().__init__()
        self.N, self.M = n, m
        self.controller = nn.LSTMCell(inp + m, hid)
        self.head = nn.Linear(hid, m + 1 + 1 + 3 + 1 + m + m)
        self.fc = nn.Linear(hid + m, inp)
        self.mem_bias = nn.Parameter(torch.randn(n, m) * 0.1)
        self.h0, self.c0 = nn.Parameter(torch.randn(1, hid)), nn.Parameter(torch.randn(1, hid))

    def address(self, memory, k, beta, g, s, gamma, w_prev):
        wc = F.softmax(beta * F.cosine_similarity(memory + 1e-16, k.unsqueeze(1) + 1e-16, dim=-1), dim=1)
        wg = g * wc + (1 - g) * w_prev
        shifted = torch.stack([wg.roll(i, dims=1) for i in (-1, 0, 1)], -1)
        w = (shifted @ s.unsqueeze(-1)).squeeze(-1) ** gamma
        return w / (w.sum(dim=1, keepdim=True) + 1e-16)

    def forward(self, x):
        b = x.size(1)
        memory = self.mem_bias.clone().repeat(b, 1, 1)
        h, c = self.h0.expand(b, -1), self.c0.expand(b, -1)
        read, w = x.new_zeros(b, self.M), x.new_full((b, self.N), 1 / self.N)
        outs = []
        for t in range(x.size(0)):
            h, c = self.controller(torch.cat([x[t], read], 1), (h, c))
            k, beta, g, s, gamma, e, a = self.head(h).split([self.M, 1, 1, 3, 1, self.M, self.M], dim=1)
            w = self.address(memory, k.tanh(), F.softplus(beta), g.sigmoid(), F.softmax(s, 1), 1 + F.softplus(gamma), w)
            memory = memory * (1 - w.unsqueeze(-1) * e.sigmoid().unsqueeze(1)) + torch.matmul(w.unsqueeze(-1), a.unsqueeze(1))
            read = torch.matmul(w.unsqueeze(1), memory).squeeze(1)
            outs += [torch.sigmoid(self.fc(torch.cat([h, read], 1)))]
        return torch.stack(outs, dim=0), memory


class MemN2N(nn.Module):
    def __init__(self, vocab=20, dim=6, hops=3):
        super().__init__()
        self.hops = hops
        for hop in range(hops + 1):
            self.add_module(f"C_{hop}", nn.Embedding(vocab, dim, padding_idx=0))
        J = torch.arange(1, 5) / 4
        self.register_buffer("encoding", 1 - J[:, None] - (torch.arange(1, dim + 1) / dim)[None] * (1 - 2 * J[:, None]))

    def C(self, i):
        return self._modules[f"C_{i}"]

    def forward(self, story, query):
        u = self.C(0)(query).sum(1)
        for hop in range(self.hops):
            m = (self.C(hop)(story) * self.encoding).sum(2)
            prob = torch.softmax((m * u.unsqueeze(1)).sum(-1), dim=-1)
            c = (self.C(hop + 1)(story) * self.encoding).sum(2)
            u = u + (prob.unsqueeze(-1) * c).sum(1)
        return u @ self.C(self.hops).weight.transpose(0, 1)


MODELS = [
    entry("nerf", NeRF, "rays_o=f32[rays,3] rays_d=f32[rays,3]", dynamic=AXES, rays=(6, 1, 4, 9), constant=("output.acc",)),
    entry("siren", Siren, "coords=f32[batch,n,2]", dynamic=AXES, batch=2, n=(7, 1, 4, 9)),
    entry("hash_grid", HashGrid, "xyz=f32[batch,3]", batch=6),
    entry("kan", lambda: nn.Sequential(KANLayer(3, 5), KANLayer(5, 2)), "input=f32[batch,3]", batch=4),
    entry("rbf_network", RBFNetwork, "input=f32[batch,3]", batch=4),
    entry("rbf_multiquadric", lambda: RBFNetwork("multiquadric"), "input=f32[batch,3]", batch=4),
    entry("ode_rk4", ODENet, "y0=f32[batch,2]", batch=3),
    entry("ode_euler", lambda: ODENet(euler, steps=6), "y0=f32[batch,2]", batch=3),
    entry("n_body", NBody, "x=f32[n,3] v=f32[n,3] m=f32[n]", plain={"dt": 0.05}, dynamic=AXES, n=(5, 2, 4, 9)),
    entry("hypernetwork", HyperNetwork, "x=f32[batch,3] z=f32[batch,4]", batch=2),
    entry("neural_turing_machine", NeuralTuringMachine, "x=f32[4,batch,3]", dynamic=AXES, batch=2),
    entry("memory_network", MemN2N, "story=i64[batch,m,4]<20 query=i64[batch,5]<20", dynamic=AXES, batch=2, m=(6, 1, 4, 9)),
]
