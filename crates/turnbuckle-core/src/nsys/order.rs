//! Time order: rows cannot be assumed to be sorted since 2025.6.

use crate::recording::{Column, Values};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Rows from which two threads sort faster than one.
const LARGE: usize = 1 << 18;

/// The order that sorts a column of times, equal ones as they stand; `None` where it is sorted.
pub fn needed(times: &Values) -> Option<Vec<u32>> {
    let Values::I64(times) = times else {
        return None;
    };
    if times.is_sorted() || u32::try_from(times.len()).is_err() {
        return None;
    }
    let mut keys: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
    if keys.len() < LARGE {
        keys.sort_unstable();
        return Some(keys.into_iter().map(|(_, row)| row).collect());
    }
    let middle = keys.len() / 2;
    let (low, high) = keys.split_at_mut(middle);
    std::thread::scope(|scope| {
        scope.spawn(|| low.sort_unstable());
        high.sort_unstable();
    });
    let mut out = Vec::with_capacity(low.len() + high.len());
    let (mut low, mut high) = (low.iter().peekable(), high.iter().peekable());
    while let (Some(one), Some(other)) = (low.peek(), high.peek()) {
        out.push(if one < other { one.1 } else { other.1 });
        if one < other {
            low.next()
        } else {
            high.next()
        };
    }
    out.extend(low.chain(high).map(|key| key.1));
    Some(out)
}

/// Put a column into that order.
pub fn arrange(column: &mut Column, order: &[u32]) {
    fn gather<T: Copy>(values: &mut Vec<T>, order: &[u32]) {
        *values = order.iter().map(|row| values[*row as usize]).collect();
    }
    // A column without a single value stays as it is, so that its memory is never touched.
    if column.valid.as_ref().is_some_and(|v| v.null_count() == v.len()) {
        return;
    }
    match &mut column.values {
        Values::I64(v) => gather(v, order),
        Values::I32(v) => gather(v, order),
        Values::I8(v) => gather(v, order),
        Values::Text(v) => *v = order.iter().map(|row| v[*row as usize].take()).collect(),
    }
    if let Some(valid) = &column.valid {
        let mut bits = BooleanBufferBuilder::new(order.len());
        for row in order {
            bits.append(valid.is_valid(*row as usize));
        }
        column.valid = Some(NullBuffer::new(bits.finish()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order_and_missing_values_travel() {
        let times = Values::I64(vec![5, 3, 5, 1]);
        let order = needed(&times).expect("out of order");
        assert_eq!(order, [3, 1, 0, 2]);
        let mut column = Column { values: Values::I32(vec![10, 11, 0, 13]), valid: Some(NullBuffer::from(vec![true, true, false, true])) };
        arrange(&mut column, &order);
        assert_eq!((0..4).map(|r| column.get(r)).collect::<Vec<_>>(), [Some(13), Some(11), Some(10), None]);
        assert!(needed(&Values::I64(vec![1, 1, 2])).is_none());
    }

    #[test]
    fn two_halves_make_one_order() {
        let times: Vec<i64> = (0..LARGE as i64 + 11).map(|i| i * 7919 % 1009).collect();
        let mut expected: Vec<u32> = (0..times.len() as u32).collect();
        expected.sort_by_key(|row| times[*row as usize]);
        assert!(needed(&Values::I64(times)) == Some(expected));
    }
}
