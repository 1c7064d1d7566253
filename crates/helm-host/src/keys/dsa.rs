//! DSA key generation, which the crypto libraries in use no longer support. A few charts still request DSA keys.

use num_bigint::BigUint;

/// Sizes in bits of the prime p, and of the prime q that divides p - 1.
#[derive(Clone, Copy)]
pub struct DsaKeySize {
    pub p: u64,
    pub q: u64,
}

pub const DEFAULT_SIZE: DsaKeySize = DsaKeySize { p: 2048, q: 256 };

/// Generates a key: p, q, g, y and x.
#[expect(clippy::many_single_char_names, reason = "the names that the standard gives them")]
pub fn generate(size: DsaKeySize) -> Result<[BigUint; 5], getrandom::Error> {
    let (p, q) = generate_primes(size)?;
    let one = BigUint::from(1u8);
    let cofactor = (&p - &one) / &q;
    // Almost any base will do: its power has order q unless it is one.
    let mut base = BigUint::from(2u8);
    let g = loop {
        let power = base.modpow(&cofactor, &p);
        if power != one {
            break power;
        }
        base += 1u8;
    };
    let x = loop {
        let x = random_number(size.q)? % &q;
        if x != BigUint::ZERO {
            break x;
        }
    };
    let y = g.modpow(&x, &p);
    Ok([p, q, g, y, x])
}

/// Two primes p and q, where q divides p - 1.
fn generate_primes(size: DsaKeySize) -> Result<(BigUint, BigUint), getrandom::Error> {
    loop {
        let mut q = random_number(size.q)?;
        q.set_bit(0, true);
        q.set_bit(size.q - 1, true);
        if !is_prime(&q)? {
            continue;
        }
        // One in a few hundred candidates is prime; if none of these is, another q is tried.
        for _ in 0..4 * size.p {
            let mut p = random_number(size.p)?;
            p.set_bit(0, true);
            p.set_bit(size.p - 1, true);
            let over = &p % (&q << 1u8);
            p = p + 1u8 - over;
            if p.bits() == size.p && is_prime(&p)? {
                return Ok((p, q));
            }
        }
    }
}

/// A random number of `bits` bits, rounded up to whole bytes.
fn random_number(bits: u64) -> Result<BigUint, getrandom::Error> {
    let mut bytes = vec![0; usize::try_from(bits.div_ceil(8)).unwrap_or_default()];
    getrandom::fill(&mut bytes)?;
    Ok(BigUint::from_bytes_be(&bytes))
}

/// Small primes that reject most candidates cheaply.
const SMALL_PRIMES: &[u32] = &[
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103,
    107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211, 223,
    227, 229, 233, 239, 241, 251,
];

/// Miller-Rabin rounds. Far fewer suffice for random candidates that no attacker chose.
const MILLER_RABIN_ROUNDS: usize = 20;

/// The Miller-Rabin test, for an odd number greater than all small primes.
fn is_prime(n: &BigUint) -> Result<bool, getrandom::Error> {
    if SMALL_PRIMES.iter().any(|small| n % small == BigUint::ZERO) {
        return Ok(false);
    }
    let one = BigUint::from(1u8);
    let most = n - &one;
    let twos = most.trailing_zeros().unwrap_or_default();
    let odd = &most >> twos;
    for _ in 0..MILLER_RABIN_ROUNDS {
        let base = random_number(n.bits())? % (n - 3u8) + 2u8;
        let mut power = base.modpow(&odd, n);
        let mut left = twos;
        while power != one && power != most && left > 1 {
            power = &power * &power % n;
            left -= 1;
        }
        if power != most && !(power == one && left == twos) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::many_single_char_names, reason = "the names that the standard gives them")]

    use super::*;

    #[test]
    fn is_prime_rejects_composites_and_pseudoprimes() {
        let prime = |n: u64| is_prime(&BigUint::from(n)).unwrap();
        for n in [257, 65_537, 1_000_003, 2_147_483_647, 18_446_744_073_709_551_557] {
            assert!(prime(n), "{n}");
        }
        // Includes pseudoprimes of other tests.
        for n in [261, 66_049, 1_050_985, 3_215_031_751, 341_550_071_728_321, 257 * 263] {
            assert!(!prime(n), "{n}");
        }
    }

    #[test]
    fn generate_returns_consistent_numbers() {
        let [p, q, g, y, x] = generate(DsaKeySize { p: 256, q: 64 }).unwrap();
        let one = BigUint::from(1u8);
        assert_eq!((p.bits(), q.bits()), (256, 64));
        assert_eq!((&p - &one) % &q, BigUint::ZERO);
        assert!(g > one && g.modpow(&q, &p) == one);
        assert!(x > BigUint::ZERO && x < q);
        assert_eq!(g.modpow(&x, &p), y);
    }
}
