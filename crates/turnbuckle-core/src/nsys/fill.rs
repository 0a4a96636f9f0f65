//! Rows into tables: the tables are laid out at their full length, cut into parts, and the parts filled by all threads.

use super::count::Counts;
use super::names::IdSet;
use super::part::{self, Part, Validity};
use super::plan::Plan;
use super::{Progress, Reader, TICK};
use crate::ReadError;
use crate::progress::Watch;
use crate::recording::Values;
use crate::schema::TableSpec;
use crate::sqlite::pages::{Decoder, Layout, Leaf, Pages};
use crate::sqlite::rows;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// Leaf pages in one part: small enough to stop soon and to share work evenly, large enough to cost nothing.
const PART_LEAVES: usize = 256;

/// What a finished part leaves behind.
#[derive(Debug)]
pub struct Rest {
    /// Index of its plan.
    pub plan: usize,
    /// Its rows inside the table.
    pub rows: Range<usize>,
    /// Which rows hold a value, by column.
    pub validity: Vec<Validity>,
    /// Its inline texts.
    pub texts: Vec<String>,
}

/// A table with its values in place, names still as ids.
#[derive(Debug)]
pub struct Filled {
    /// Names and types.
    pub spec: &'static TableSpec,
    /// Rows.
    pub rows: usize,
    /// Values by column.
    pub columns: Vec<Values>,
    /// The parts, in order of rows.
    pub rests: Vec<Rest>,
}

/// Flaws and wanted names of all parts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Ids of the string table: plain names and API names.
    pub ids: [IdSet; 2],
    /// Count by code and detail.
    pub flaws: HashMap<(&'static str, String), u64>,
}

impl Tally {
    /// Count a flaw.
    pub fn add(&mut self, code: &'static str, detail: String, count: u64) {
        if count > 0 {
            *self.flaws.entry((code, detail)).or_default() += count;
        }
    }

    fn part(&mut self, plan: &Plan, part: &Part<'_>) {
        for (mine, theirs) in self.ids.iter_mut().zip(&part.ids) {
            mine.union(theirs);
        }
        for (wanted, count) in plan.slots.iter().zip(&part.flaws.wrong_type) {
            self.add("P105", format!("{}.{}", plan.source.table, wanted.name), *count);
        }
        for (spec, column) in plan.spec.columns.iter().zip(&part.columns) {
            self.add("P106", format!("{}.{}", plan.spec.name, spec.name), column.too_large);
        }
        self.add("P107", plan.source.table.to_owned(), part.flaws.bad_text);
    }
}

/// A part to fill, and the leaves to fill it from; none where SQLite must be asked.
struct Job<'a> {
    plan: usize,
    leaves: Option<&'a [Leaf]>,
    part: Part<'a>,
}

/// Plans that feed the same table.
fn groups(plans: &[Plan]) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        match out.last_mut() {
            Some(last) if plans[last.start].spec.name == plan.spec.name => last.end = index + 1,
            _ => out.push(index..index + 1),
        }
    }
    out
}

fn layout(plan: &Plan) -> Layout {
    Layout::new(&plan.slots.iter().map(|s| (s.position, s.rowid)).collect::<Vec<_>>())
}

/// Fill the tables.
///
/// # Errors
/// P005 where the file contradicts itself, [`ReadError::Cancelled`].
pub fn fill(reader: &Reader<'_>, plans: &[Plan], counts: &Counts, progress: Progress<'_>) -> Result<(Vec<Filled>, Tally), ReadError> {
    let layouts: Vec<Layout> = plans.iter().map(layout).collect();
    let groups = groups(plans);
    let total = |range: &Range<usize>| plans[range.clone()].iter().map(|p| counts.of(p.source.table) as usize).sum::<usize>();
    let mut tables: Vec<Vec<Values>> = groups.iter().map(|g| part::columns(&plans[g.start], total(g))).collect();
    let mut jobs = Vec::new();
    for (group, columns) in groups.iter().zip(&mut tables) {
        let mut origins = Vec::new();
        for index in group.clone() {
            let rows = counts.of(plans[index].source.table) as usize;
            match counts.trees.get(plans[index].source.table).filter(|_| plans[index].direct) {
                Some(tree) => {
                    for leaves in tree.leaves.chunks(PART_LEAVES) {
                        origins.push((index, leaves.iter().map(|l| l.rows as usize).sum(), Some(leaves)));
                    }
                }
                None => origins.push((index, rows, None)),
            }
        }
        let cuts: Vec<(&Plan, usize)> = origins.iter().map(|(index, rows, _)| (&plans[*index], *rows)).collect();
        let parts = part::cut(columns, &cuts);
        jobs.extend(parts.into_iter().zip(origins).map(|(part, (plan, _, leaves))| Job { plan, leaves, part }));
    }
    reader.watch.expect(jobs.iter().map(|j| j.part.rows as u64).sum());
    let tally = Mutex::new(Tally::default());
    let mut rests = work(reader, plans, &layouts, jobs, &tally, progress)?;
    rests.sort_by_key(|r| (r.plan, r.rows.start));
    let mut filled: Vec<Filled> = Vec::new();
    let mut rests = rests.into_iter().peekable();
    for (group, columns) in groups.into_iter().zip(tables) {
        let mut mine = Vec::new();
        while let Some(rest) = rests.next_if(|r| group.contains(&r.plan)) {
            mine.push(rest);
        }
        filled.push(Filled { spec: plans[group.start].spec, rows: total(&group), columns, rests: mine });
    }
    Ok((filled, tally.into_inner().unwrap_or_default()))
}

/// All jobs, on all threads; those that need SQLite on this one, which holds its connection.
fn work(
    reader: &Reader<'_>,
    plans: &[Plan],
    layouts: &[Layout],
    jobs: Vec<Job<'_>>,
    tally: &Mutex<Tally>,
    progress: Progress<'_>,
) -> Result<Vec<Rest>, ReadError> {
    let expected = jobs.len();
    let (through_sqlite, direct_jobs): (Vec<Job<'_>>, Vec<Job<'_>>) = jobs.into_iter().partition(|j| j.leaves.is_none());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if reader.threads == 0 { cores } else { reader.threads }.clamp(1, 64).min(direct_jobs.len().max(1));
    let queue = Mutex::new(direct_jobs.into_iter());
    let (pages, watch) = (reader.pages, reader.watch);
    let (send, receive) = channel();
    let mut rests = Vec::with_capacity(expected);
    let mut failed = None;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let send: Sender<Result<Rest, ReadError>> = send.clone();
            let queue = &queue;
            scope.spawn(move || {
                while let Some(job) = next(queue) {
                    let (index, leaves) = (job.plan, job.leaves.unwrap_or_default());
                    let done = if watch.stopped() {
                        Err(ReadError::Cancelled)
                    } else {
                        direct(pages, watch, &plans[index], job, leaves, &layouts[index], tally)
                    };
                    if send.send(done).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for job in through_sqlite {
            let plan = &plans[job.plan];
            match stepped(reader, plan, job, tally, progress) {
                Ok(rest) => rests.push(rest),
                Err(error) => failed = failed.take().or(Some(error)),
            }
            if failed.is_some() {
                reader.watch.stop();
                break;
            }
        }
        loop {
            match receive.recv_timeout(TICK) {
                Ok(Ok(rest)) => rests.push(rest),
                Ok(Err(error)) => {
                    reader.watch.stop();
                    if failed.as_ref().is_none_or(|e| *e == ReadError::Cancelled) {
                        failed = Some(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !progress(reader.watch.fraction()) {
                        reader.watch.stop();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None if rests.len() == expected => Ok(rests),
        None => Err(ReadError::Cancelled),
    }
}

fn next<'a>(queue: &Mutex<std::vec::IntoIter<Job<'a>>>) -> Option<Job<'a>> {
    queue.lock().map_or(None, |mut q| q.next())
}

/// Fill a part from pages.
fn direct(
    pages: &Pages<'_>,
    watch: &Watch,
    plan: &Plan,
    mut job: Job<'_>,
    leaves: &[Leaf],
    layout: &Layout,
    tally: &Mutex<Tally>,
) -> Result<Rest, ReadError> {
    Decoder::new(pages, layout).leaves(leaves, |batch| {
        watch.advance(batch.rows as u64);
        if job.part.take(plan, batch) { Ok(()) } else { Err(other_count(plan.source.table)) }
    })?;
    done(plan, job, tally)
}

/// Fill a part through SQLite.
fn stepped(reader: &Reader<'_>, plan: &Plan, mut job: Job<'_>, tally: &Mutex<Tally>, progress: Progress<'_>) -> Result<Rest, ReadError> {
    let columns: Vec<String> = plan.slots.iter().map(|s| s.name.clone()).collect();
    let mut since = 0;
    rows::scan(&reader.database.connection, plan.source.table, &columns, |batch| {
        reader.watch.advance(batch.rows as u64);
        since += batch.rows;
        if !job.part.take(plan, batch) {
            return Err(other_count(plan.source.table));
        }
        if since >= 1 << 16 {
            since = 0;
            if !progress(reader.watch.fraction()) || reader.watch.stopped() {
                return Err(ReadError::Cancelled);
            }
        }
        Ok(())
    })?;
    done(plan, job, tally)
}

fn done(plan: &Plan, job: Job<'_>, tally: &Mutex<Tally>) -> Result<Rest, ReadError> {
    let part = job.part;
    if part.filled != part.rows {
        return Err(other_count(plan.source.table));
    }
    if let Ok(mut tally) = tally.lock() {
        tally.part(plan, &part);
    }
    let validity = part.columns.into_iter().map(|c| c.validity).collect();
    Ok(Rest { plan: job.plan, rows: part.first..part.first + part.rows, validity, texts: part.texts.finish() })
}

fn other_count(table: &str) -> ReadError {
    ReadError::damaged(format!("{table} holds another number of rows than its pages say"))
}
