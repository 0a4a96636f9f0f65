//! Names that the Itanium C++ ABI mangles, as people write them.

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::fmt;

/// Letters of a mangled name; a longer one is not read.
const LONGEST: usize = 20_000;
/// Bytes of a plain name: substitutions of substitutions grow without limit.
const LARGEST: usize = 1 << 16;
/// Steps of the parser one inside the other: its time may double with each.  Of a thousand recorded kernels one needs more.
const DEEPEST: u32 = 64;
/// `new` and `delete` in expressions: the parser reads what stands inside each several times, whatever the depth.  Kernels have none;
/// in identifiers these letters stand up to 11 times.
const COSTLY: [&str; 4] = ["nw", "na", "dl", "da"];
const MOST_COSTLY: usize = 12;

/// The plain text of a mangled name; nothing where it is not understood, too long or too deep.
pub fn demangled(name: &str) -> Option<String> {
    let costly: usize = COSTLY.iter().map(|letters| name.matches(letters).count()).sum();
    if !name.starts_with("_Z") || name.len() > LONGEST || costly > MOST_COSTLY {
        return None;
    }
    let symbol = Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(DEEPEST)).ok()?;
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &DemangleOptions::new()).ok()?;
    Some(out.0)
}

/// A text that refuses to grow beyond [`LARGEST`].
struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LARGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        let scale = demangled("_Z5scaleIfEvPT_i");
        assert_eq!(scale.as_deref(), Some("void scale<float>(float*, int)"));
        for other in ["main", "_Z", "_Z3f", "_ZN3abc", "_Z9999999999f", "_Z1fS5_", "__Z1fv"] {
            assert_eq!(demangled(other), None, "{other}");
        }
    }

    /// Without their bounds these run for hours, fill the memory or overflow the stack.
    #[test]
    fn hostile_names_are_given_up() {
        let bomb: String = (0..24u8).map(|k| format!("1{}I{}E", char::from(b'a' + k), before(k).repeat(10))).collect();
        let hostile = [
            ("pointers", "_Z1f".to_owned() + &"P".repeat(15_000) + "i"),
            ("templates", "_Z1fI".to_owned() + &"N1aI".repeat(3000)),
            ("operators new", "_Z1fIX".to_owned() + &"nw".repeat(40)),
            ("operators delete", "_Z1fIX".to_owned() + &"dl".repeat(40) + &"i".repeat(40)),
            ("conversions", "_ZN1a".to_owned() + &"cvT_I".repeat(24)),
            ("letters", "_Z".to_owned() + &"1f".repeat(100_000)),
            ("packs", "_Z1fIJ".to_owned() + &"i".repeat(9000) + "EEv" + &"DpT_".repeat(2000)),
            ("substitutions", format!("_Z1fI{bomb}Evv")),
        ];
        for (what, name) in hostile {
            assert_eq!(demangled(&name), None, "{what}");
        }
    }

    /// The substitution that stands for the template written before the one numbered `k`.
    fn before(k: u8) -> String {
        match u32::from(k) * 2 {
            0 => "i".to_owned(),
            n => format!("S{}_", char::from_digit(n, 36).map_or_else(|| format!("1{}", n - 36), |c| c.to_ascii_uppercase().to_string())),
        }
    }
}
