"""A model that checks its values; in a file of its own, because pytest rewrites the asserts of test files."""

import contextlib
import warnings
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import _assert as checked
from torch import nn


class Checks(nn.Module):
    """Every way in which people check values before they go on."""

    def forward(self, x, lengths):
        if not (x > -1e9).all() or (x.sum()
                                    != x.sum()):  # fmt: skip
            raise ValueError("not"
                             "finite")  # fmt: skip
        assert x.sum() < 1e9, "large"
        assert (x < 1e9).all() and not (x < -1e9).any()
        if x.isnan().any().item():
            raise ValueError("NaN")
        if lengths.max().item() > 512:
            raise ValueError(f"long: {lengths}")
        if x.max() > 100:
            warnings.warn("large values", stacklevel=1)
        if x.max() < 100:
            y = x + 1
        else:
            raise RuntimeError("large")
        is_large = x.max() > 100
        if is_large:
            raise ValueError
        if any(t.isnan().any() for t in (x, y)):
            raise ValueError
        torch._assert((x < 100).all(), "large")
        if not bool((x < 100).all()):
            raise ValueError
        return F.gaussian_nll_loss(x, y, y.abs() + 0.1, reduction="none")


class Catches(nn.Module):
    """Checks whose exception the model catches: they decide what it computes."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return getattr(self, self.how)(x)

    def a_handler(self, x):
        try:
            if (x < 0).any():  # HERE
                raise ValueError("negative")
        except ValueError:
            x = x.abs()
        return x + 1

    def a_handler_of_everything(self, x):
        try:
            assert (x >= 0).all()  # HERE
            y = x.sqrt()
        except Exception:
            y = x.abs()
        return y

    def a_handler_of_a_number(self, x):
        y = x
        with contextlib.suppress(Exception):
            if x.argmax().item() > 3:  # HERE
                raise ValueError("late")
            y = x + 1
        return y

    def suppressed(self, x):
        y = x
        with suppress(ValueError), torch.no_grad():
            if (x < 0).any():  # HERE
                raise ValueError("negative")
            y = x + 1
        return y

    def a_return_at_last(self, x):
        try:
            if (x < 0).any():  # HERE
                raise ValueError("negative")
            x = x + 1
        finally:
            return x  # noqa: B012

    def torch_assert(self, x):
        try:
            torch._assert((x >= 0).all(), "negative")  # HERE
        except AssertionError:
            x = x.abs()
        return x + 1

    def a_caller(self, x):
        try:
            self.refuse_negative(x)
        except ValueError:
            x = x.abs()
        return x + 1

    def refuse_negative(self, x):
        if (x < 0).any():  # HERE
            raise ValueError("negative")
        if x.max() > 100:
            warnings.warn("large values", stacklevel=1)

    def a_caller_of_torch(self, x):
        try:
            y = F.gaussian_nll_loss(x, x, x)  # HERE
        except Exception:
            y = x.abs()
        return y

    def a_caller_of_a_warning(self, x):
        with suppress(ValueError):
            self.warn_of_large(x)
        return x + 1

    def warn_of_large(self, x):
        if x.max() > 100:
            warnings.warn("large values", stacklevel=1)

    def a_check_of_its_own(self, x):
        return self._check(bool((x < 0).any()), x)  # HERE

    def _check(self, negative, x):
        return x.abs() if negative else x + 1

    def raised_again(self, x):
        try:
            if (x > 1e9).any():
                raise ValueError("large")
        except ValueError as error:
            raise RuntimeError("not this one") from error
        else:
            checked((x < 1e9).all(), "large")
        finally:
            x = x * 2
        return x
