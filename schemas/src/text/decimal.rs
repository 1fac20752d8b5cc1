//! Decimal digits of a number, for programs that cannot allocate.

/// Formats decimal digits without an allocation or the formatting machinery, which a traced program would have to
/// load.
pub fn decimal(value: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut left = value.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}
