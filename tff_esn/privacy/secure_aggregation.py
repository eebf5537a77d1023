"""Secure aggregation: the server learns the sum of the clients' vectors and nothing of a single one.

The protocol of Bonawitz et al. (CCS 2017), in four rounds:

    0. A client makes two X25519 key pairs, one for masks and one for talking to other clients.
    1. It draws a seed of its own and gives every other client a share (Shamir) of the seed and of its mask
       key, encrypted for that client alone.
    2. It sends its vector as integers modulo 2^64, plus a mask from its own seed, plus or minus a mask for
       each other client, from the key that the two agree on. The pairwise masks cancel in the sum.
    3. For each client the others reveal their shares of its seed, if its vector arrived, or of its mask key, if it
       dropped out; never both. With enough of them the server takes the remaining masks off the sum.

Values become integers with `FixedPoint`, whose rounding is the only error. This holds against a server that follows
the protocol but is curious, and against fewer than `threshold` clients that help it. TFF's own
`federated_secure_sum` runs in TFF's test backend only, where it is a plain sum: see `simulated_secure_sum`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tff_esn.errors import ConfigError, TffEsnError

Masked = NDArray[np.uint64]
_PRIME = 2**521 - 1
_KEY_BYTES, _SHARE_BYTES = 32, 66


class SecureAggregationError(TffEsnError):
    """The protocol cannot continue."""


@dataclass(frozen=True)
class FixedPoint:
    """Numbers as integers modulo 2^64.

    Attributes:
        bound: Largest absolute value of a client's numbers.
        clients: How many are added at most.
    """

    bound: float
    clients: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ConfigError(f"bound = {self.bound:g}; expected a positive number")

    @property
    def fraction_bits(self) -> int:
        """Bits behind the point: all that the sum leaves free."""
        return 62 - math.ceil(math.log2(self.bound * self.clients))

    @property
    def error(self) -> float:
        """How far a sum may be from the true one: half an integer for each client, and the sum's own float64."""
        return self.clients * (2.0 ** -(self.fraction_bits + 1) + self.bound * 2.0**-53)

    def encode(self, values: NDArray) -> Masked:
        """Values as integers; values out of bounds are an error."""
        if not (np.abs(values) <= self.bound).all():
            raise SecureAggregationError(f"values beyond {self.bound:g}; expected a larger bound, or smaller values")
        return np.rint(np.ldexp(np.asarray(values, np.float64), self.fraction_bits)).astype(np.int64).view(np.uint64)

    def decode(self, integers: Masked) -> NDArray[np.float64]:
        """The values of a sum of integers."""
        return np.ldexp(integers.view(np.int64).astype(np.float64), -self.fraction_bits)


@dataclass(frozen=True)
class PublicKeys:
    """The public keys that a client publishes in round 0."""

    masks: bytes
    talk: bytes


class SecureClient:
    """A client's side of the protocol; its secrets leave it only in shares."""

    def __init__(self, name: str, threshold: int) -> None:
        self.name, self._threshold = name, threshold
        self._mask_key, self._talk_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seed = secrets.token_bytes(_KEY_BYTES)
        self._others: dict[str, PublicKeys] = {}
        self._shares: dict[str, tuple[bytes, bytes]] = {}
        self._revealed = False

    @property
    def public(self) -> PublicKeys:
        """Round 0."""
        return PublicKeys(*(key.public_key().public_bytes_raw() for key in (self._mask_key, self._talk_key)))

    def share(self, everyone: Mapping[str, PublicKeys]) -> dict[str, bytes]:
        """Round 1: a sealed pair of shares, of the own seed and the own mask key, for each client."""
        if len(everyone) < self._threshold or len({own.masks for own in everyone.values()}) < len(everyone):
            raise SecureAggregationError(
                f"{len(everyone)} clients; expected {self._threshold} or more, each its own key"
            )
        self._others = dict(everyone)
        seeds = split_secret(self._seed, self._threshold, len(everyone))
        keys = split_secret(self._mask_key.private_bytes_raw(), self._threshold, len(everyone))
        sealed = {}
        for name, seed, key in zip(sorted(everyone), seeds, keys):
            nonce = secrets.token_bytes(12)
            box = ChaCha20Poly1305(self._talk_secret(name))
            sealed[name] = nonce + box.encrypt(nonce, seed + key, f"{self.name}>{name}".encode())
        return sealed

    def masked(self, values: Masked, sealed: Mapping[str, bytes]) -> Masked:
        """Round 2: the vector under its masks, for the clients whose shares arrived."""
        for name, data in sealed.items():
            box = ChaCha20Poly1305(self._talk_secret(name))
            opened = box.decrypt(data[:12], data[12:], f"{name}>{self.name}".encode())
            self._shares[name] = opened[:_SHARE_BYTES], opened[_SHARE_BYTES:]
        total = values + mask_stream(self._seed, len(values))
        for name in self._shares:
            if name != self.name:
                pair = mask_stream(_agreed(self._mask_key, self._others[name].masks), len(values))
                total = total + pair if self.name < name else total - pair
        return total

    def reveal(self, arrived: Sequence[str]) -> dict[str, bytes]:
        """Round 3, once: shares of the seeds of who arrived, of the mask keys of who did not."""
        if self._revealed:
            raise SecureAggregationError(
                f"{self.name} is asked again; expected one question, two would unmask a client"
            )
        if len(arrived) < self._threshold:
            raise SecureAggregationError(f"{len(arrived)} vectors arrived; expected at least {self._threshold}")
        self._revealed = True
        return {name: own[0] if name in arrived else own[1] for name, own in self._shares.items()}

    def _talk_secret(self, name: str) -> bytes:
        return _agreed(self._talk_key, self._others[name].talk)


def secure_sum(
    vectors: Mapping[str, NDArray],
    bound: float,
    threshold: int | None = None,
    dropped: Sequence[str] = (),
) -> SecureSum:
    """Runs the protocol, every client in this process.

    Args:
        vectors: Of each client, all of one length.
        bound: Largest absolute value in them, known to all beforehand.
        threshold: Clients that must stay to the end; None for two thirds.
        dropped: Clients that are gone after round 1: their masks are in the others' vectors, theirs never comes.
    """
    if len({len(vector) for vector in vectors.values()}) != 1:
        raise SecureAggregationError("vectors of different lengths; expected one length")
    needed = max(2, math.ceil(2 * len(vectors) / 3)) if threshold is None else threshold
    if len(vectors) < 2 or not 2 <= needed <= len(vectors):
        raise SecureAggregationError(f"threshold {needed} of {len(vectors)} clients; expected from 2 to all of them")
    fixed = FixedPoint(bound, len(vectors))
    clients = {name: SecureClient(name, needed) for name in vectors}
    public = {name: client.public for name, client in clients.items()}
    sealed = {name: client.share(public) for name, client in clients.items()}
    sent = {
        name: client.masked(fixed.encode(vectors[name]), {other: own[name] for other, own in sealed.items()})
        for name, client in clients.items()
        if name not in dropped
    }
    revealed = {name: clients[name].reveal(list(sent)) for name in sent}
    total = fixed.decode(unmasked_sum(sent, revealed, public, needed))
    keys = {name: len(own.masks) + len(own.talk) for name, own in public.items()}
    shares = {name: sum(map(len, (*sealed[name].values(), *revealed.get(name, {}).values()))) for name in clients}
    up = {name: keys[name] + shares[name] + (sent[name].nbytes if name in sent else 0) for name in clients}
    down = {name: sum(keys.values()) + sum(len(own[name]) for own in sealed.values()) for name in clients}
    return SecureSum(total, fixed.error, sent, up, max(down.values()))


@dataclass(frozen=True)
class SecureSum:
    """The server's result.

    Attributes:
        total: Sum over the clients whose vectors arrived.
        error: Bound of its distance from the true sum.
        sent: The vectors as they arrived, masked.
        bytes_up: From each client in all rounds: keys, sealed shares, its masked vector, revealed shares.
        bytes_down: To each client: keys and sealed shares.
    """

    total: NDArray[np.float64]
    error: float
    sent: Mapping[str, Masked]
    bytes_up: Mapping[str, int]
    bytes_down: int


def unmasked_sum(
    sent: Mapping[str, Masked],
    revealed: Mapping[str, Mapping[str, bytes]],
    public: Mapping[str, PublicKeys],
    threshold: int,
) -> Masked:
    """The server's end: the sum, own masks taken off, and what the pairwise masks of dropped clients left."""
    length = len(next(iter(sent.values())))
    total = np.zeros(length, np.uint64)
    for vector in sent.values():
        total = total + vector
    positions = {name: number for number, name in enumerate(sorted(public), start=1)}
    for name in public:
        shares = {positions[other]: own[name] for other, own in revealed.items() if name in own}
        if len(shares) < threshold:
            raise SecureAggregationError(f"{len(shares)} shares of {name}'s secret; expected at least {threshold}")
        secret = join_secret(dict(list(shares.items())[:threshold]))
        if name in sent:
            total = total - mask_stream(secret, length)
            continue
        key = X25519PrivateKey.from_private_bytes(secret)
        for other in sent:
            pair = mask_stream(_agreed(key, public[other].masks), length)
            # What `other` added or subtracted for the one who is gone.
            total = total - pair if other < name else total + pair
    return total


def split_secret(secret: bytes, threshold: int, shares: int) -> list[bytes]:
    """Shamir's shares 1, 2, ...: values of a random polynomial whose constant term is the secret."""
    terms = [int.from_bytes(secret, "little"), *(secrets.randbelow(_PRIME) for _ in range(threshold - 1))]
    values = (sum(term * x**power for power, term in enumerate(terms)) % _PRIME for x in range(1, shares + 1))
    return [value.to_bytes(_SHARE_BYTES, "little") for value in values]


def join_secret(shares: Mapping[int, bytes]) -> bytes:
    """The polynomial's constant term, from as many of its values as it has terms."""
    total = 0
    for x, share in shares.items():
        numerator = denominator = 1
        for other in shares:
            if other != x:
                numerator, denominator = numerator * other % _PRIME, denominator * (other - x) % _PRIME
        total += int.from_bytes(share, "little") * numerator * pow(denominator, -1, _PRIME)
    return (total % _PRIME).to_bytes(_SHARE_BYTES, "little")[:_KEY_BYTES]


def mask_stream(seed: bytes, length: int) -> Masked:
    """Uniform integers from ChaCha20's key stream."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, np.uint64)


def _agreed(own: X25519PrivateKey, other: bytes) -> bytes:
    shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"tff-esn secure aggregation").derive(shared)


def simulated_secure_sum(vectors: Sequence[NDArray], bound: float) -> NDArray[np.float64]:
    """The sum by TFF's own `federated_secure_sum`, in TFF's test backend.

    There is no cryptography behind it: the test backend adds the plain integers. It is here to try
    computations that ask for secure sums, and hides nothing.
    """
    from tff_esn.runtime.context import load_tff

    tff = load_tff()
    fixed = FixedPoint(bound, len(vectors))
    # TFF adds numbers from 0 to a largest one, and asks for room for the sum of all.
    bits = fixed.fraction_bits - 1
    offset = math.ceil(np.ldexp(bound, bits))

    @tff.federated_computation(tff.FederatedType(tff.TensorType(np.int64, [len(vectors[0])]), tff.CLIENTS))
    def add(values: Any) -> Any:
        return tff.federated_secure_sum(values, np.int64(2 * offset))

    with tff.framework.get_context_stack().install(tff.backends.test.create_sync_test_cpp_execution_context()):
        total = add([np.rint(np.ldexp(vector, bits)).astype(np.int64) + offset for vector in vectors])
    return np.ldexp((np.asarray(total, np.int64) - len(vectors) * offset).astype(np.float64), -bits)
