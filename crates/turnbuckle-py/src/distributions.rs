//! Quantiles and tails of distributions for Python: one number in each argument, one out.

use pyo3::prelude::*;
use turnbuckle_core::distributions;

/// Return the value that Student's t with `freedom` degrees stays below with probability `p`.
#[pyfunction]
pub fn student_quantile(freedom: f64, p: f64) -> f64 {
    distributions::student_quantile(freedom, p)
}

/// Return the probability that Student's t with `freedom` degrees is at most `value`.
#[pyfunction]
pub fn student_cdf(freedom: f64, value: f64) -> f64 {
    distributions::student_cdf(freedom, value)
}

/// Return the probability that F with `above` and `below` degrees of freedom exceeds `ratio`.
#[pyfunction]
pub fn f_tail(above: f64, below: f64, ratio: f64) -> f64 {
    distributions::f_tail(above, below, ratio)
}

/// Return the value that the beta distribution with shapes `a` and `b` stays below with probability `p`.
#[pyfunction]
pub fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    distributions::beta_quantile(a, b, p)
}

/// Return the probability that the gamma distribution with `shape` and scale 1 exceeds `value`.
#[pyfunction]
pub fn gamma_tail(shape: f64, value: f64) -> f64 {
    distributions::gamma_tail(shape, value)
}
