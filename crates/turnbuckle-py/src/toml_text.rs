//! TOML for Python: what a text says as dicts and lists, and the place of each key and value by the path of keys that leads there.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use turnbuckle_core::toml_text::{DeTable, DeValue, Flaw, Places, parsed};

/// Tables and lists inside each other.
const DEEPEST: usize = 80;

/// Parse TOML.  Returns what it says, places of keys, and places of values that are written behind a key or in a list.
///
/// A key that stands several times has its first place, a value its last.  Raises `ValueError` with the reason and, where there is one, the place.
#[pyfunction]
pub fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let places = Places::new(text);
    let table = py.detach(|| parsed(text, &places)).map_err(raised)?;
    let mut reading = Reading { py, text, places, path: vec![], keys: PyDict::new(py), values: PyDict::new(py) };
    Ok((reading.table(table.get_ref())?, reading.keys, reading.values))
}

fn raised(flaw: Flaw) -> PyErr {
    PyValueError::new_err((flaw.why, flaw.place))
}

struct Reading<'py, 't> {
    py: Python<'py>,
    text: &'t str,
    places: Places,
    path: Vec<String>,
    keys: Bound<'py, PyDict>,
    values: Bound<'py, PyDict>,
}

impl<'py> Reading<'py, '_> {
    fn flaw(&self, why: &str, at: usize) -> PyErr {
        raised(Flaw { why: why.to_owned(), place: Some(self.places.of(at)) })
    }

    /// Whether a table is written in braces, not under a header.
    fn in_braces(&self, at: usize) -> bool {
        self.text[at..].starts_with('{')
    }

    fn table(&mut self, table: &DeTable<'_>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(self.py);
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            self.path.push(key.get_ref().to_string());
            let path = PyTuple::new(self.py, &self.path)?;
            if !self.keys.contains(&path)? {
                self.keys.set_item(&path, self.places.of(key.span().start))?;
            }
            out.set_item(key.get_ref(), self.value(value.get_ref(), value.span().start)?)?;
            self.path.pop();
        }
        Ok(out)
    }

    fn value(&mut self, value: &DeValue<'_>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        if self.path.len() > DEEPEST {
            return Err(self.flaw("nested too deeply", at));
        }
        let headed = match value {
            DeValue::Table(_) => !self.in_braces(at),
            DeValue::Array(items) => items.first().is_some_and(|item| item.get_ref().is_table() && !self.in_braces(item.span().start)),
            _ => false,
        };
        if !headed {
            self.values.set_item(PyTuple::new(self.py, &self.path)?, self.places.of(at))?;
        }
        match value {
            DeValue::String(text) => text.into_bound_py_any(self.py),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| self.flaw("a whole number of too many digits", at))?
                .into_bound_py_any(self.py),
            DeValue::Float(number) => number.as_str().parse::<f64>().map_err(|_| self.flaw("no number", at))?.into_bound_py_any(self.py),
            DeValue::Boolean(truth) => truth.into_bound_py_any(self.py),
            DeValue::Datetime(_) => Err(self.flaw("a date or time: texts need quotes", at)),
            DeValue::Table(table) => Ok(self.table(table)?.into_any()),
            DeValue::Array(items) => {
                let out = PyList::empty(self.py);
                for (index, item) in items.iter().enumerate() {
                    if !headed {
                        self.path.push(index.to_string());
                    }
                    out.append(self.value(item.get_ref(), item.span().start)?)?;
                    if !headed {
                        self.path.pop();
                    }
                }
                Ok(out.into_any())
            }
        }
    }
}
