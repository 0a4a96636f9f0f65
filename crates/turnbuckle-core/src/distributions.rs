//! Quantiles and tails of the distributions behind intervals and tests.  Outside a distribution's parameters every answer is NaN.

use statrs::distribution::{Beta, ContinuousCDF, FisherSnedecor, StudentsT};
use statrs::function::gamma::checked_gamma_ur;

/// Return the value that Student's t with `freedom` degrees stays below with probability `p`.
#[must_use]
pub fn student_quantile(freedom: f64, p: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(t) if (0.0..=1.0).contains(&p) => t.inverse_cdf(p),
        _ => f64::NAN,
    }
}

/// Return the probability that Student's t with `freedom` degrees is at most `value`.
#[must_use]
pub fn student_cdf(freedom: f64, value: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(_) if value.is_infinite() => f64::from(u8::from(value > 0.0)),
        Ok(t) if !value.is_nan() => t.cdf(value),
        _ => f64::NAN,
    }
}

/// Return the probability that F with `above` and `below` degrees of freedom exceeds `ratio`.
#[must_use]
pub fn f_tail(above: f64, below: f64, ratio: f64) -> f64 {
    match FisherSnedecor::new(above, below) {
        Ok(_) if ratio == f64::INFINITY => 0.0,
        Ok(f) if ratio >= 0.0 => f.sf(ratio),
        _ => f64::NAN,
    }
}

/// Return the value that the beta distribution with shapes `a` and `b` stays below with probability `p`.
#[must_use]
pub fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    match Beta::new(a, b) {
        Ok(beta) if (0.0..=1.0).contains(&p) => beta.inverse_cdf(p),
        _ => f64::NAN,
    }
}

/// Return the probability that the gamma distribution with `shape` and scale 1 exceeds `value`.
#[must_use]
pub fn gamma_tail(shape: f64, value: f64) -> f64 {
    match value {
        f64::INFINITY if shape > 0.0 => 0.0,
        _ if value == 0.0 && shape > 0.0 => 1.0,
        _ => checked_gamma_ur(shape, value).unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-9
    }

    #[test]
    fn tables_of_textbooks() {
        assert!((student_quantile(4.0, 0.95) - 2.132).abs() < 5e-4);
        assert!((student_quantile(30.0, 0.975) - 2.042).abs() < 5e-4);
        assert!((f_tail(3.0, 10.0, 3.708) - 0.05).abs() < 5e-5);
        assert!((beta_quantile(9.0, 2.0, 0.05) - 0.606).abs() < 5e-4);
    }

    #[test]
    fn closed_forms() {
        // one degree of freedom is Cauchy's distribution, two have a root; a gamma of shape 1 is exponential; a beta with b = 1 is a power
        assert!(close(student_quantile(1.0, 0.95), (std::f64::consts::PI * 0.45).tan()));
        assert!(close(student_quantile(2.0, 0.9), 0.8 * (2.0_f64 / (4.0 * 0.9 * 0.1)).sqrt()));
        assert!(close(gamma_tail(1.0, 3.0), (-3.0_f64).exp()));
        assert!(close(beta_quantile(7.0, 1.0, 0.025), 0.025_f64.powf(1.0 / 7.0)));
        assert!(close(student_cdf(5.0, student_quantile(5.0, 0.95)), 0.95));
    }

    #[test]
    fn ends() {
        assert_eq!([student_cdf(3.0, f64::INFINITY), student_cdf(3.0, f64::NEG_INFINITY), student_cdf(3.0, 0.0)], [1.0, 0.0, 0.5]);
        assert_eq!([f_tail(2.0, 3.0, f64::INFINITY), f_tail(2.0, 3.0, 0.0)], [0.0, 1.0]);
        assert_eq!([gamma_tail(2.0, 0.0), gamma_tail(2.0, f64::INFINITY)], [1.0, 0.0]);
        let nothing = [student_quantile(0.0, 0.5), student_quantile(3.0, 1.5), student_cdf(3.0, f64::NAN), f_tail(0.0, 1.0, 1.0)];
        assert!(nothing.iter().chain(&[beta_quantile(-1.0, 1.0, 0.5), gamma_tail(0.0, 1.0), gamma_tail(1.0, -1.0)]).all(|x| x.is_nan()));
    }
}
