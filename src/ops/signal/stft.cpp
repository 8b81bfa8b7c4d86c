// Short-time Fourier transforms, there and back, and the windows that signals are multiplied with.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ir/mistakes.h"
#include "ops/signal/fourier.h"

namespace pycandle {
namespace {

// The window centred in n_fft points, zeros around it; without one, ones.
ValueId centred_window(Builder& b, const Call& c, DType dtype) {
  const int64_t n = c.integer("n_fft"), length = c.integer("win_length"), left = (n - length) / 2;
  const ValueId window = c.has("window") ? c.value("window") : b.full(1.0, dtype, {length});
  return b.pad(b.cast(window, dtype), {left}, {n - length - left}, Scalar{0.0});
}

// ---- what people get wrong

struct OtherWindow {
  const char *kind, *text;
  double alpha = 0.5, beta = 0.5;
};
constexpr OtherWindow kWindows[] = {
    {"cosine", "Hann"}, {"cosine", "Hamming", 0.54, 0.46}, {"blackman", "Blackman"}, {"bartlett", "Bartlett"}};

std::string window_text(const OtherWindow& w, bool periodic) {
  return fmt::format("a {}{} window", periodic ? "" : "symmetric ", w.text);
}

void other_frames(Mistakes& m) {
  const Call& c = m.call();
  m.flag("normalisation", "normalized", "a transform divided by the root of its size", "a transform that is not divided");
  m.without("window", "window", "window");
  const DType dtype = c.has("window") ? c.type("window").dtype : real_of(c.type("x").dtype);
  if (!is_floating(dtype)) return;
  for (const OtherWindow& w : kWindows) {
    for (const bool periodic : {true, false}) {
      const Attributes attributes{{"kind", std::string(w.kind)},
                                  {"length", c.integer("win_length")},
                                  {"periodic", periodic},
                                  {"alpha", w.alpha},
                                  {"beta", w.beta},
                                  {"dtype", dtype}};
      m.build("window", c.has("window") ? "its window" : "no window", window_text(w, periodic),
              [attributes](const MistakeSite& site) {
                return site.same(site.with_operand("window", site.b.create("signal_window", {}, attributes)));
              });
    }
  }
}

void other_windows(Mistakes& m) {
  const Call& c = m.call();
  std::string now = "its window";
  for (const OtherWindow& w : kWindows) {
    if (c.string("kind") == w.kind && c.number("alpha") == w.alpha) now = window_text(w, c.boolean("periodic"));
  }
  for (const OtherWindow& w : kWindows) {
    for (const bool periodic : {true, false}) {
      if (window_text(w, periodic) != now)
        m.attributes("window", {{"kind", std::string(w.kind)}, {"periodic", periodic}, {"alpha", w.alpha}, {"beta", w.beta}}, now,
                     window_text(w, periodic));
    }
  }
}

OpDef add_frame_attributes(OpDef def) {
  const std::string id = def.name;
  return def.operands("x", optional("window"))
      .mistakes(other_frames)
      .attributes(attr<int64_t>("n_fft"), attr<int64_t>("hop_length"), attr<int64_t>("win_length"),
                  attr<bool>("normalized", false), attr<bool>("onesided", true))
      .constraint(id + "_c1", "0 < hop_length, 0 < win_length <= n_fft",
                  [](const Call& c) {
                    const int64_t n = c.integer("n_fft");
                    return positive_and_sane({n, c.integer("hop_length"), c.integer("win_length")}) &&
                           c.integer("win_length") <= n;
                  })
      .constraint(id + "_c2", "window is a vector of win_length elements", [](const Call& c) {
        return !c.has("window") || (c.rank("window") == 1 && c.agree(c.shape("window")[0], Dim(c.integer("win_length"))));
      });
}

Attributes frame_attributes(AtenCall& c) {
  const int64_t n = c.integer("n_fft");
  const int64_t hop = c.is_none("hop_length") ? n / 4 : c.integer("hop_length");
  const int64_t length = c.is_none("win_length") ? n : c.integer("win_length");
  return {{"n_fft", n}, {"hop_length", hop}, {"win_length", length}, {"normalized", c.boolean("normalized")}};
}

// ---- there

Values build_stft(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("self");
  Attributes attributes = frame_attributes(c);
  const int64_t n = c.integer("n_fft");
  const auto window = c.maybe_tensor("window");
  const bool is_real = !is_complex(b.dtype(x)) && (!window || !is_complex(b.dtype(*window)));
  attributes.emplace_back("onesided", c.is_none("onesided") ? is_real : c.boolean("onesided"));
  const bool aligned = !c.is_none("align_to_window") && c.boolean("align_to_window");
  Dims low(b.shape(x).size(), Dim(0)), high = low;
  if (c.has_argument("center")) {
    const std::string mode = c.string("pad_mode");
    low.back() = high.back() = n / 2;
    if (!c.boolean("center")) {
      low.back() = high.back() = 0;
    } else if (mode == "constant") {
      x = b.pad(x, low, high, Scalar{0.0});
    } else if (mode == "reflect" || mode == "replicate" || mode == "circular") {
      const char* op = mode == "reflect" ? "reflection_pad" : mode == "replicate" ? "replication_pad" : "circular_pad";
      x = b.create(op, {x}, {{"low", low}, {"high", high}});
    } else {
      c.unsupported("pad_mode='" + mode + "'");
    }
  }
  if (aligned) {  // the first window, not the first frame, starts at 0
    const int64_t length = std::get<int64_t>(attributes[2].second);
    low.back() = (n - length) / 2;
    high.back() = n - length - (n - length) / 2;
    x = b.pad(x, low, high, Scalar{0.0});
  }
  const ValueId y = b.create("stft", {x, window.value_or(kNoValue)}, std::move(attributes));
  const bool complex_result = c.is_none("return_complex") ? !is_real : c.boolean("return_complex");
  if (complex_result) return {y};
  return {b.concat({b.unsqueeze(b.unary("real", y), -1), b.unsqueeze(b.unary("imag", y), -1)}, -1)};
}

OpDef stft() {
  OpDef def = add_frame_attributes(functional("stft"));
  def.doc("Fourier transforms of overlapping frames of the last axis, each times the window: […, bins, frames]")
      .constraint("stft_c3", "x is f32, f64 or complex, and at least n_fft long",
                  [](const Call& c) {
                    const DType d = c.type("x").dtype;
                    return (d == DType::f32 || d == DType::f64 || is_complex(d)) && c.rank("x") >= 1 &&
                           may_be_at_most(c.integer("n_fft"), c.shape("x").back());
                  })
      .constraint("stft_c4", "only the transform of a real x has one side",
                  [](const Call& c) {
                    const bool is_real = !is_complex(c.type("x").dtype) &&
                                         (!c.has("window") || !is_complex(c.type("window").dtype));
                    return is_real || !c.boolean("onesided");
                  })
      .infer([](const Call& c) {
        const int64_t n = c.integer("n_fft");
        Type y = c.type("x");
        y.dtype = complex_of(c.has("window") ? promote_types(y.dtype, c.type("window").dtype) : y.dtype);
        y.shape.back() = c.boolean("onesided") ? n / 2 + 1 : n;
        y.shape.push_back(floordiv(c.shape("x").back() - n, c.integer("hop_length")) + 1);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        const int64_t n = c.integer("n_fft"), last = b.rank(x);
        x = b.create("unfold", {x}, {{"axis", last - 1}, {"size", Dim(n)}, {"step", Dim(c.integer("hop_length"))}});
        const DType dtype = c.has("window") ? promote_types(b.dtype(x), c.type("window").dtype) : b.dtype(x);
        x = b.mul(b.cast(x, dtype), centred_window(b, c, dtype));
        const FourierScale scale = c.boolean("normalized") ? FourierScale::root_of_n : FourierScale::nothing;
        const ValueId y = is_complex(dtype) ? fourier(b, x, {last}, false, scale)
                                            : fourier_of_real(b, x, {last}, scale, c.boolean("onesided"));
        return b.swap_axes(y, -1, -2);
      });
  return def.from_aten_call("aten.stft.default", build_stft)
      .from_aten_call("aten.stft.center", build_stft)
      .sample("torch.stft(t(2, 64, dtype=torch.float32), 16, window=torch.hann_window(16), return_complex=True)")
      .sample(
          "torch.stft(t(50, dtype=torch.float32), 15, hop_length=4, win_length=10, window=t(10, dtype=torch.float32), "
          "normalized=True, return_complex=True)")
      .sample("torch.stft(t(50, dtype=torch.float64), 16, center=False, onesided=False, return_complex=True)")
      .sample("torch.stft(t(3, 50, dtype=torch.float32), 16, 5, pad_mode='constant', return_complex=False)")
      .sample("torch.stft(t(50, dtype=torch.complex64), 16, 5, return_complex=True)")
      .sample(
          "torch.stft(t(50, dtype=torch.float32), 16, 5, win_length=9, center=False, align_to_window=True, "
          "return_complex=True)")
      .sample(
          "torch.ops.aten.stft.center(t(50, dtype=torch.float32), 16, 5, center=True, pad_mode='reflect', "
          "return_complex=True)");
}

// ---- back

// Frames [batch, frames, n] summed where they overlap: [batch, length].
ValueId overlapped(Builder& b, ValueId frames, int64_t hop, Dim length) {
  const Dim batch = b.shape(frames)[0], count = b.shape(frames)[1], n = b.shape(frames)[2];
  const ValueId starts = b.mul(b.iota(count), static_cast<double>(hop));
  const ValueId places = b.add(b.unsqueeze(starts, 1), b.iota(n));
  const ValueId nothing = b.full(0.0, b.dtype(frames), {batch, length});
  return b.create("scatter_nd", {nothing, frames, places}, {{"axes", Ints{1}}, {"accumulate", true}});
}

// Where the result lies within the overlapped frames, and how many zeros follow it.
struct Extent {
  Dim length, start, stop, zeros;
};
Extent extent_of(const Call& c) {
  const int64_t n = c.integer("n_fft");
  Extent e;
  e.length = (c.shape("x").back() - 1) * Dim(c.integer("hop_length")) + Dim(n);
  e.start = c.boolean("center") ? n / 2 : 0;
  const Dim end = c.has("length") ? e.start + c.dim("length") : c.boolean("center") ? e.length - Dim(n / 2) : e.length;
  e.stop = at_most(end, e.length) == Tri::yes ? end : min(end, e.length);
  e.zeros = end - e.stop;
  return e;
}

OpDef istft() {
  OpDef def = add_frame_attributes(functional("istft"));
  def.doc("the signal whose stft is x: frames transformed back, times the window, summed and divided by the windows' squares")
      .attributes(attr<bool>("center", true), optional_attr<Dim>("length"), attr<bool>("return_complex", false))
      .constraint("istft_c3", "x is complex, [bins, frames] with or without a batch, and has n_fft bins or n_fft / 2 + 1",
                  [](const Call& c) {
                    const int64_t n = c.integer("n_fft");
                    return is_complex(c.type("x").dtype) && (c.rank("x") == 2 || c.rank("x") == 3) &&
                           c.agree(c.shape("x")[c.rank("x") - 2], c.boolean("onesided") ? n / 2 + 1 : n);
                  })
      .constraint("istft_c4", "a complex result needs both sides, a real one a real window",
                  [](const Call& c) {
                    if (c.boolean("return_complex")) return !c.boolean("onesided");
                    return !c.has("window") || !is_complex(c.type("window").dtype);
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        if (!c.boolean("return_complex")) y.dtype = real_of(y.dtype);
        const Extent e = extent_of(c);
        y.shape.pop_back();
        y.shape.back() = e.stop - e.start + e.zeros;
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const int64_t n = c.integer("n_fft"), hop = c.integer("hop_length");
        const bool is_single = c.rank("x") == 2;
        ValueId x = is_single ? b.unsqueeze(c.value("x"), 0) : c.value("x");
        x = b.swap_axes(x, 1, 2);  // [batch, frames, bins]
        const FourierScale scale = c.boolean("normalized") ? FourierScale::root_of_n : FourierScale::n;
        ValueId frames;
        if (c.boolean("return_complex")) {
          frames = fourier(b, x, {2}, true, scale);
        } else {
          frames = fourier_to_real(b, b.slice(x, 2, 0, n / 2 + 1), {2}, scale, n);
        }
        const Extent e = extent_of(c);
        const DType dtype = b.dtype(frames);
        const ValueId window = centred_window(b, c, dtype);
        const ValueId squares = b.broadcast_to(b.square(window), {1, b.shape(frames)[1], n});
        const auto cut = [&](ValueId v) { return b.slice(overlapped(b, v, hop, e.length), 1, e.start, e.stop); };
        ValueId y = b.div(cut(b.mul(frames, window)), cut(squares));
        y = b.pad(y, {0, 0}, {0, e.zeros}, Scalar{0.0});
        return is_single ? b.squeeze(y, 0) : y;
      });
  return def
      .from_aten_call("aten.istft.default",
                      [](AtenCall& c) {
                        Attributes attributes = frame_attributes(c);
                        const ValueId x = c.tensor("self");
                        const int64_t n = c.integer("n_fft");
                        const Dim bins = c.b.rank(x) < 2 ? Dim(0) : c.b.shape(x)[c.b.rank(x) - 2];
                        attributes.emplace_back("onesided", c.is_none("onesided") ? bins != Dim(n) : c.boolean("onesided"));
                        attributes.emplace_back("center", c.boolean("center"));
                        if (!c.is_none("length")) attributes.emplace_back("length", c.dim("length"));
                        attributes.emplace_back("return_complex", c.boolean("return_complex"));
                        return c.b.create_all("istft", {x, c.maybe_tensor("window").value_or(kNoValue)}, std::move(attributes));
                      })
      .sample("torch.istft(t(2, 9, 7, dtype=torch.complex64), 16, window=torch.hann_window(16))")
      .sample("torch.istft(t(9, 7, dtype=torch.complex64), 16, hop_length=3, win_length=12, normalized=True)")
      .sample("torch.istft(t(9, 7, dtype=torch.complex64), 16, hop_length=4, center=False, length=30)")
      .sample("torch.istft(t(16, 7, dtype=torch.complex64), 16, hop_length=5, onesided=False)")
      .sample("torch.istft(t(16, 7, dtype=torch.complex64), 16, hop_length=4, return_complex=True)");
}

// ---- windows

// f of the position, computed as torch does: in the dtype of the result.
struct Positions {
  Builder& b;
  ValueId count;   // 0, 1, …
  double last;     // the position where the window ends
  ValueId times(ValueId x, double factor) const { return arithmetic(b, "mul", x, Scalar{factor}); }
  ValueId plus(ValueId x, double number) const { return arithmetic(b, "add", x, Scalar{number}); }
  ValueId cosine(double circles) const { return b.unary("cos", times(count, 2 * std::numbers::pi * circles / last)); }
};

ValueId raised_cosine(const Positions& p, double alpha, double beta) { return p.plus(p.times(p.cosine(1), -beta), alpha); }
ValueId blackman(const Positions& p) {
  const ValueId first = p.times(p.cosine(1), -0.5), second = p.times(p.cosine(2), 0.08);
  return p.plus(p.b.add(first, second), 0.42);
}
ValueId bartlett(const Positions& p) {
  const ValueId rising = p.times(p.count, 2 / p.last), falling = p.plus(p.times(rising, -1), 2);
  return p.b.select(p.b.compare("le", p.count, std::floor(p.last / 2)), rising, falling);
}
ValueId kaiser(const Positions& p, double beta) {
  Builder& b = p.b;
  const DType dtype = b.dtype(p.count);
  const ValueId x = b.widened(b.cast(p.count, wide_of(dtype)));
  const ValueId centred = b.div(b.sub(x, p.last / 2), p.last / 2);
  const ValueId rest = b.maximum(b.sub(1.0, b.square(centred)), 0.0);
  const ValueId top = b.unary("i0", b.mul(b.sqrt(rest), beta));
  return b.narrowed(b.div(top, b.unary("i0", b.full(beta, b.dtype(x)))), dtype);
}

ValueId window_value(const Positions& p, const Call& c) {
  const std::string& kind = c.string("kind");
  if (kind == "blackman") return blackman(p);
  if (kind == "bartlett") return bartlett(p);
  if (kind == "kaiser") return kaiser(p, c.number("beta"));
  return raised_cosine(p, c.number("alpha"), c.number("beta"));
}

OpDef signal_window() {
  OpDef def = functional("signal_window");
  def.doc(
         "a window of `length` numbers: cosine (alpha - beta cos; Hann, Hamming), blackman, bartlett or kaiser (beta); a "
         "periodic one "
         "leaves out its last point")
      .attributes(attr<std::string>("kind"), attr<int64_t>("length"), attr<bool>("periodic", true), attr<double>("alpha", 0.5),
                  attr<double>("beta", 0.5), attr<DType>("dtype", DType::f32))
      .constraint("signal_window_c1", "kind is cosine, blackman, bartlett or kaiser",
                  [](const Call& c) {
                    const std::string& kind = c.string("kind");
                    return kind == "cosine" || kind == "blackman" || kind == "bartlett" || kind == "kaiser";
                  })
      .constraint("signal_window_c2", "length is 0 to 2^40, and dtype is floating",
                  [](const Call& c) {
                    return c.integer("length") >= 0 && c.integer("length") <= (int64_t{1} << 40) && is_floating(c.dtype("dtype"));
                  })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), {Dim(c.integer("length"))}}; })
      .decompose([](Builder& b, const Call& c) {
        const int64_t length = c.integer("length");
        if (length <= 1) return b.full(1.0, c.dtype("dtype"), {length});
        const Positions p{b, b.iota(length, c.dtype("dtype")), static_cast<double>(c.boolean("periodic") ? length : length - 1)};
        return window_value(p, c);
      })
      .mistakes(other_windows);
  struct Kind {
    const char *torch, *kind;
    double alpha, beta;
    std::vector<const char*> overloads;
  };
  for (const Kind& kind : {Kind{"hann", "cosine", 0.5, 0.5, {"default", "periodic"}},
                           {"hamming", "cosine", 0.54, 0.46, {"default", "periodic", "periodic_alpha", "periodic_alpha_beta"}},
                           {"blackman", "blackman", 0.5, 0.5, {"default", "periodic"}},
                           {"bartlett", "bartlett", 0.5, 0.5, {"default", "periodic"}},
                           {"kaiser", "kaiser", 0.5, 12.0, {"default", "periodic", "beta"}}})
    for (const char* overload : kind.overloads)
      def.from_aten_call(fmt::format("aten.{}_window.{}", kind.torch, overload), [kind](AtenCall& c) {
        c.discard_placement();
        return c.b.create_all("signal_window", {},
                              {{"kind", std::string(kind.kind)},
                               {"length", c.integer("window_length")},
                               {"periodic", c.has_argument("periodic") ? c.boolean("periodic") : true},
                               {"alpha", c.has_argument("alpha") ? c.number("alpha") : kind.alpha},
                               {"beta", c.has_argument("beta") ? c.number("beta") : kind.beta},
                               {"dtype", c.dtype("dtype").value_or(DType::f32)}});
      });
  for (const char* name : {"hann", "hamming", "blackman", "bartlett", "kaiser"})
    def.sample(fmt::format("torch.{}_window(9) + t(1, dtype=torch.float32)", name))
        .sample(fmt::format("torch.{}_window(8, periodic=False, dtype=torch.float64) + t(1, dtype=torch.float64)", name))
        .sample(fmt::format("torch.{}_window(1) + t(1, dtype=torch.float32)", name));
  return def.sample("torch.hamming_window(9, True, 0.6, 0.3) + t(1, dtype=torch.float32)")
      .sample("torch.kaiser_window(9, False, 4.5) + t(1, dtype=torch.float32)")
      .sample("torch.hann_window(0) + t(1, dtype=torch.float32)");
}

}  // namespace

std::vector<OpDef> stft_ops() { return {stft(), istft(), signal_window()}; }

}  // namespace pycandle
