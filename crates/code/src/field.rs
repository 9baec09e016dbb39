//! GF(256) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, in which 2 generates all numbers but 0.

/// Sum that replaces x^8.
const REDUCTION: u8 = 0x1d;
/// Number of different powers of 2.
const ORDER: usize = 255;
/// Bytes that are multiplied at once: compilers turn loops over them into vector instructions.
pub(crate) const LANES: usize = 64;

/// Powers of 2, and the logarithm of each number but 0.
static TABLES: ([u8; ORDER], [u8; 256]) = tables();

const fn tables() -> ([u8; ORDER], [u8; 256]) {
    let (mut powers, mut logarithms) = ([0; ORDER], [0; 256]);
    let (mut exponent, mut power) = (0_u8, 1_u8);
    while exponent < u8::MAX {
        powers[exponent as usize] = power;
        logarithms[power as usize] = exponent;
        power = double(power);
        exponent += 1;
    }
    (powers, logarithms)
}

const fn double(byte: u8) -> u8 {
    (byte << 1) ^ (REDUCTION * (byte >> 7))
}

/// Returns the power of 2 with this exponent.
pub(crate) fn power(exponent: usize) -> u8 {
    TABLES.0[exponent % ORDER]
}

fn logarithm(number: u8) -> usize {
    TABLES.1[usize::from(number)].into()
}

pub(crate) fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + logarithm(b)) }
}

/// Returns the quotient; 0 if the divisor is 0.
pub(crate) fn divide(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power(logarithm(a) + ORDER - logarithm(b)) }
}

/// Adds the product of a number and each byte of `source` to `target`, which is at least as long.
pub(crate) fn add_product(target: &mut [u8], factor: u8, source: &[u8]) {
    let (target_blocks, target_rest) = target.as_chunks_mut::<LANES>();
    let (source_blocks, source_rest) = source.as_chunks::<LANES>();
    for (target, source) in target_blocks.iter_mut().zip(source_blocks) {
        add(target, &product(*source, factor));
    }
    // The source's rest meets a block of a longer target, or the target's rest.
    let target = target_blocks.get_mut(source_blocks.len()).map_or(target_rest, <[u8; LANES]>::as_mut_slice);
    for (target, product) in target.iter_mut().zip(product(padded(source_rest), factor)) {
        *target ^= product;
    }
}

/// Doubles each byte of `target` so often, and adds `source`, which is at most as long.
pub(crate) fn double_and_add(target: &mut [[u8; LANES]], doublings: u64, source: &[u8]) {
    let (blocks, rest) = source.as_chunks::<LANES>();
    let mut sources = blocks.iter();
    let mut rest = Some(padded(rest));
    for block in target {
        let mut sum = *block;
        for _ in 0..doublings {
            double_each(&mut sum);
        }
        match sources.next() {
            Some(source) => add(&mut sum, source),
            None => rest.take().iter().for_each(|rest| add(&mut sum, rest)),
        }
        *block = sum;
    }
}

fn padded(bytes: &[u8]) -> [u8; LANES] {
    let mut block = [0; LANES];
    if let Some(start) = block.get_mut(..bytes.len()) {
        start.copy_from_slice(bytes);
    }
    block
}

#[inline(always)]
fn double_each(block: &mut [u8; LANES]) {
    for byte in block {
        *byte = (*byte << 1) ^ (REDUCTION & (byte.cast_signed() >> 7).cast_unsigned());
    }
}

/// Multiplies each byte.
pub(crate) fn scale(bytes: &mut [u8], factor: u8) {
    let (blocks, rest) = bytes.as_chunks_mut::<LANES>();
    for block in blocks {
        *block = product(*block, factor);
    }
    for byte in rest {
        *byte = multiply(*byte, factor);
    }
}

/// Sums the doubles of the bytes that the bits of the factor ask for.
#[inline(always)]
fn product(mut doubled: [u8; LANES], factor: u8) -> [u8; LANES] {
    let mut sum = [0; LANES];
    let mut bits = factor;
    loop {
        if bits & 1 != 0 {
            add(&mut sum, &doubled);
        }
        bits >>= 1;
        if bits == 0 {
            return sum;
        }
        double_each(&mut doubled);
    }
}

#[inline(always)]
fn add(target: &mut [u8; LANES], source: &[u8; LANES]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target ^= source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies bit by bit, as on paper.
    fn slow_product(a: u8, b: u8) -> u8 {
        let mut product = 0_u16;
        for bit in 0..8 {
            product ^= (u16::from(a) << bit) * u16::from(b >> bit & 1);
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 != 0 {
                product ^= 0x11d << (bit - 8);
            }
        }
        u8::try_from(product).expect("the remainder has 8 bits")
    }

    #[test]
    fn products_and_quotients_agree_with_those_on_paper() {
        for a in 0..=u8::MAX {
            for b in 0..=u8::MAX {
                let product = slow_product(a, b);
                assert_eq!(multiply(a, b), product, "{a} {b}");
                assert_eq!(divide(product, b), if b == 0 { 0 } else { a }, "{a} {b}");
            }
        }
    }

    #[test]
    fn sums_by_doubling_agree_for_each_number_of_doublings_and_length() {
        let source: Vec<u8> = (0..=u8::MAX).map(|byte| byte.wrapping_mul(91) ^ 0x5a).collect();
        for doublings in 0..300 {
            let factor = power(usize::try_from(doublings).expect("small"));
            for length in [0_usize, 1, 63, 64, 65, 128, 200] {
                for blocks in [length.div_ceil(LANES), length.div_ceil(LANES) + 1] {
                    let before: Vec<u8> = (0..blocks * LANES).map(|at| source[at % 256] ^ 0x33).collect();
                    let mut target = before.clone();
                    double_and_add(target.as_chunks_mut().0, doublings, &source[..length]);
                    let expected = before.iter().enumerate().map(|(at, &byte)| {
                        slow_product(byte, factor) ^ source[..length].get(at).copied().unwrap_or_default()
                    });
                    assert!(target.into_iter().eq(expected), "{doublings} {length} {blocks}");
                }
            }
        }
    }

    #[test]
    fn sums_of_products_agree_for_each_factor_and_length() {
        let source: Vec<u8> = (0..=u8::MAX).map(|byte| byte.wrapping_mul(91) ^ 0x5a).collect();
        for factor in 0..=u8::MAX {
            for length in [0, 1, 31, 32, 33, 63, 64, 100, 256] {
                for target_length in [length, length + 1, length + 40] {
                    let mut target = vec![0xc3; target_length];
                    add_product(&mut target, factor, &source[..length]);
                    let mut scaled = source[..length].to_vec();
                    scale(&mut scaled, factor);
                    for (at, byte) in target.into_iter().enumerate() {
                        let product = source[..length].get(at).map_or(0, |&source| slow_product(source, factor));
                        assert_eq!(byte, 0xc3 ^ product);
                        assert!(scaled.get(at).is_none_or(|&scaled| scaled == product));
                    }
                }
            }
        }
    }
}
