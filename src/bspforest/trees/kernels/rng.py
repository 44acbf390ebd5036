"""Random stream of a tree: xoshiro256++ (Blackman and Vigna, 2019), four words of state."""

from __future__ import annotations

import math

import numpy as np

from .jit import always_inline, kernel

_R11 = np.uint64(11)
_L17, _L23, _R41 = np.uint64(17), np.uint64(23), np.uint64(41)
_L45, _R19 = np.uint64(45), np.uint64(19)
_TO_UNIT = 2.0**-53


@always_inline
def draw_word(state):
    """Return the next 64 random bits."""
    s0, s1, s2, s3 = state.s0, state.s1, state.s2, state.s3
    mix = s0 + s3
    word = ((mix << _L23) | (mix >> _R41)) + s0
    t = s1 << _L17
    s2 ^= s0
    s3 ^= s1
    state.s1 = s1 ^ s2
    state.s0 = s0 ^ s3
    state.s2 = s2 ^ t
    state.s3 = (s3 << _L45) | (s3 >> _R19)
    return word


@always_inline
def draw_uniform(state):
    """Draw uniformly from [0, 1)."""
    return np.float64(draw_word(state) >> _R11) * _TO_UNIT


@always_inline
def draw_exponential(state):
    """Draw from the exponential distribution with mean 1."""
    return -math.log(1.0 - draw_uniform(state))


@kernel
def draw_normal(state):
    """Draw from the standard normal distribution (Box and Muller)."""
    radius = math.sqrt(2.0 * draw_exponential(state))
    return radius * math.cos(2.0 * math.pi * draw_uniform(state))
