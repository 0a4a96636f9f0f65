//! A script in a small JavaScript engine (QuickJS): text in, text out.  It reaches no file, no network and nothing else of the process.

use rquickjs::promise::MaybePromise;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Error, Function, Runtime, String as Text};
use std::cell::RefCell;
use std::fmt;
use std::hint::black_box;

/// Why a script gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptError {
    /// The process, or the limit given, has not enough memory.
    Memory,
    /// The script failed: how many inputs were answered before, and its own message.
    Failed(usize, String),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("out of memory"),
            Self::Failed(answered, message) => write!(f, "after {answered} answers: {message}"),
        }
    }
}

impl std::error::Error for ScriptError {}

/// Bytes in which a script that was refused a few megabytes is tried again: four times too little may be too little as well.
const AMPLE: usize = 64 << 20;

/// An engine that has loaded its sources.
struct Engine {
    sources: Vec<String>,
    memory: usize,
    context: Context,
    runtime: Runtime,
}

thread_local! {
    /// The engine of the thread's last call: loading a library again takes longer than most answers.
    static KEPT: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// Load `sources` in order, then return what the global function `name` answers to each input; a promise is waited for.
///
/// The engine uses at most `memory` bytes.  These are asked for beforehand and given back, so that a process under a limit is
/// refused here and does not run dry half way.  A thread's engine is kept for its next call with the same sources and memory; what
/// fails in it is asked again of a new one, so that no answer depends on earlier calls that failed or filled it.
///
/// # Errors
/// [`ScriptError::Memory`] where `memory` is not to be had or does not suffice, [`ScriptError::Failed`] where the script throws.
pub fn run(sources: &[&str], name: &str, inputs: &[&str], memory: usize) -> Result<Vec<String>, ScriptError> {
    drop(black_box(reserved(memory)?));
    if let Some(engine) = KEPT.take().filter(|engine| engine.memory == memory && engine.sources == sources)
        && let Ok(answers) = engine.answers(name, inputs)
    {
        engine.keep();
        return Ok(answers);
    }
    let ended = run_once(sources, name, inputs, memory);
    // A script may catch that memory ran out, and throw another error later: then it succeeds, or says so, where there is more.
    if matches!(ended, Err(ScriptError::Failed(..)))
        && !matches!(run_once(sources, name, inputs, memory.saturating_mul(4).max(AMPLE)), Err(ScriptError::Failed(..)))
    {
        return Err(ScriptError::Memory);
    }
    let (engine, answers) = ended?;
    engine.keep();
    Ok(answers)
}

/// [`run`] in a new engine, without the question why it failed.
fn run_once(sources: &[&str], name: &str, inputs: &[&str], memory: usize) -> Result<(Engine, Vec<String>), ScriptError> {
    let engine = Engine::new(sources, memory)?;
    let answers = engine.answers(name, inputs)?;
    Ok((engine, answers))
}

impl Engine {
    /// Start an engine and load `sources` in order.
    fn new(sources: &[&str], memory: usize) -> Result<Self, ScriptError> {
        drop(black_box(reserved(memory)?));
        let runtime = Runtime::new().map_err(|_| ScriptError::Memory)?;
        // the rest is for the answers, whose allocation cannot fail without ending the process
        runtime.set_memory_limit(memory - memory / 8);
        // unreachable cycles are looked for at a quarter of it: at QuickJS's 256 KiB the library itself is searched again and again
        runtime.set_gc_threshold(memory / 4);
        let context = Context::full(&runtime).map_err(|_| ScriptError::Memory)?;
        let loaded =
            context.with(|ctx| sources.iter().try_for_each(|source| ctx.eval::<(), _>(*source)).catch(&ctx).map_err(|e| message(&e)));
        loaded.map_err(|message| failed(0, message))?;
        Ok(Self { sources: sources.iter().map(|&source| source.to_owned()).collect(), memory, context, runtime })
    }

    /// Return what the global function `name` answers to each input.
    fn answers(&self, name: &str, inputs: &[&str]) -> Result<Vec<String>, ScriptError> {
        let mut answers = Vec::new();
        let ended = self.context.with(|ctx| {
            let mut answer = |ctx: &Ctx<'_>| -> rquickjs::Result<()> {
                let function: Function<'_> = ctx.globals().get(name)?;
                for input in inputs {
                    let called: MaybePromise<'_> = function.call((*input,))?;
                    let answer: Text<'_> = called.finish()?;
                    answers.push(answer.to_string()?);
                }
                Ok(())
            };
            answer(&ctx).catch(&ctx).map_err(|error| message(&error))
        });
        ended.map_err(|message| failed(answers.len(), message))?;
        Ok(answers)
    }

    /// Keep this engine for the thread's next call, without what its answers left behind.
    fn keep(self) {
        self.runtime.run_gc();
        KEPT.set(Some(self));
    }
}

/// The error of a script that threw; without a message memory ran out.
fn failed(answered: usize, message: Option<String>) -> ScriptError {
    message.map_or(ScriptError::Memory, |message| ScriptError::Failed(answered, message))
}

/// Room for `bytes`, or the error that it is not to be had.
fn reserved(bytes: usize) -> Result<Vec<u8>, ScriptError> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| ScriptError::Memory)?;
    Ok(room)
}

/// What a failure of the engine says; nothing where memory ran out: then the error object itself may be missing.
fn message(error: &CaughtError<'_>) -> Option<String> {
    match error {
        CaughtError::Exception(exception) => exception.message().filter(|text| text != "out of memory"),
        CaughtError::Error(Error::Allocation | Error::Unknown) => None,
        CaughtError::Error(error) => Some(error.to_string()),
        CaughtError::Value(value) => value.as_string().and_then(|text| text.to_string().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 64 << 20;

    fn answers(source: &str, inputs: &[&str], memory: usize) -> Result<Vec<String>, ScriptError> {
        run(&[source], "f", inputs, memory)
    }

    fn failure(source: &str) -> (usize, String) {
        match answers(source, &["a", "b"], MEMORY) {
            Err(ScriptError::Failed(answered, message)) => (answered, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_input_gets_its_answer() {
        let doubled = answers("globalThis.f = t => t + t", &["a", "\u{b5}\u{1f600}"], MEMORY);
        assert_eq!(doubled, Ok(vec!["aa".to_owned(), "\u{b5}\u{1f600}\u{b5}\u{1f600}".to_owned()]));
    }

    #[test]
    fn a_kept_engine_answers_as_a_new_one() {
        let leaves = "globalThis.f = t => { if (t == 'x') throw Error('no'); globalThis[t] = Array(1000).fill(t); return t + t }";
        for _ in 0..3 {
            assert_eq!(answers(leaves, &["a", "b"], MEMORY), Ok(vec!["aa".to_owned(), "bb".to_owned()]));
            assert_eq!(answers(leaves, &["a", "x"], MEMORY), Err(ScriptError::Failed(1, "no".to_owned())));
        }
        // another source, another engine
        assert_eq!(answers("globalThis.f = t => t", &["a"], MEMORY), Ok(vec!["a".to_owned()]));
        // what earlier calls fill does not keep a later one from its memory
        let fills = "const all = []; globalThis.f = t => { all.push(Array(200000).fill(t)); return all.length > 0 ? t : '' }";
        for _ in 0..20 {
            assert_eq!(answers(fills, &["a"], 8 << 20), Ok(vec!["a".to_owned()]));
        }
    }

    #[test]
    fn a_promise_is_waited_for() {
        let later = answers("globalThis.f = t => Promise.resolve(t).then(t => t + '!')", &["a"], MEMORY);
        assert_eq!(later, Ok(vec!["a!".to_owned()]));
    }

    #[test]
    fn a_script_that_fails_says_why_and_where() {
        assert_eq!(failure("globalThis.f = t => { if (t == 'b') throw Error('no ' + t); return t }"), (1, "no b".to_owned()));
        assert_eq!(failure("globalThis.f = t => Promise.reject('no ' + t)"), (0, "no a".to_owned()));
        let wrong =
            ["(", "globalThis.f = t => 1", "globalThis.f = t => new Promise(() => {})", "globalThis.f = function f(t) { return f(t) + 1 }"];
        for source in wrong {
            assert_eq!(failure(source).0, 0, "{source}");
        }
    }

    #[test]
    fn a_script_reaches_nothing_outside() {
        let names = "globalThis.f = () => ['require', 'process', 'fetch', 'std', 'os', 'XMLHttpRequest', 'setTimeout', 'print']\
                     .filter(n => n in globalThis).join()";
        assert_eq!(answers(names, &[""], MEMORY), Ok(vec![String::new()]));
        assert_eq!(failure("globalThis.f = () => import('os').then(() => 'os')").0, 0);
    }

    #[test]
    fn too_little_memory_is_an_error_at_any_limit() {
        let grows =
            "globalThis.f = t => { const all = []; for (let i = 0; i < 20000; i++) all.push({ i, t: t + i }); return all.length + '' }";
        assert_eq!(answers(grows, &["a"], MEMORY), Ok(vec!["20000".to_owned()]));
        for limit in (1..1_600_000).step_by(40_961) {
            assert_eq!(answers(grows, &["a"], limit), Err(ScriptError::Memory), "{limit} bytes");
        }
        assert_eq!(answers(grows, &["a"], usize::MAX / 4), Err(ScriptError::Memory));
        let hides = format!(
            "{grows}; const inner = globalThis.f; globalThis.f = t => {{ try {{ return inner(t) }} catch {{ throw Error('other') }} }}"
        );
        for limit in [400_000, 1_600_000] {
            assert_eq!(answers(&hides, &["a"], limit), Err(ScriptError::Memory), "{limit} bytes");
        }
    }
}
