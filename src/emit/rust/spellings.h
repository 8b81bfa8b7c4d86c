// How ops are written in Rust, where the op itself does not say it all (expression.cpp has those: arithmetic, views, slices).
//
//   {x}      an operand, borrowed           {x.}     before a method            {mask?}  Some(&mask) or None
//   {xs*}    all of a variadic operand      {dim}    an attribute               {axes&}  a list, borrowed
//   {scale?} Some(0.5) or None              {device} of a tensor at hand        {shape#} a tuple: (2, 3)
//   {stride:1} of equal numbers one
//   {Options: a b=name} a struct with the attributes and optional operands that are not at their defaults
#pragma once

#include <string>
#include <string_view>

#include "ir/op_def.h"

namespace pycandle::emit::rust {

// nullptr when there is none for this call.
const char* spelling(const Call&);

}  // namespace pycandle::emit::rust
