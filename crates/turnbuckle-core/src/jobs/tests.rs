use super::*;

const FULL: Class = Class { slowdown: 1.0, bandwidth: 0.0, exposed: 0.0, moving: 0.0 };
const EVER: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Jobs of one part each: arrival, work, cores, GPUs in thousandths.
fn jobs_of(rows: &[(f64, f64, i64, i64)], hosts: &Hosts<'_>, class: Class, policy: Policy) -> Outcome {
    let arrival: Vec<f64> = rows.iter().map(|r| r.0).collect();
    let work: Vec<f64> = rows.iter().map(|r| r.1).collect();
    let cores: Vec<i64> = rows.iter().map(|r| r.2 * 1000).collect();
    let gpus: Vec<i64> = rows.iter().map(|r| r.3).collect();
    let (parts, memory, class_of) = (vec![1; rows.len()], vec![0; rows.len()], vec![0; rows.len()]);
    let jobs =
        Jobs { arrival: &arrival, work: &work, limit: &work, parts: &parts, cores: &cores, memory: &memory, gpus: &gpus, class: &class_of };
    run(&jobs, hosts, &[class], policy, 100, EVER, f64::INFINITY)
}

const TWO_NODES: Hosts<'static> =
    Hosts { pool: &[0, 1], cores: &[8000, 8000], memory: &[0, 0], gpus: &[2, 2], trunk: &[f64::INFINITY, f64::INFINITY] };
const ONE_POOL: Hosts<'static> = Hosts { pool: &[0, 0], cores: &[8000, 8000], memory: &[0, 0], gpus: &[4], trunk: &[f64::INFINITY] };

#[test]
fn gpus_of_two_nodes_are_one_pool_where_they_are_shared() {
    // three GPUs do not fit a node of two
    let rows = [(0.0, 10.0, 1, 3000)];
    assert!(jobs_of(&rows, &TWO_NODES, FULL, Policy::Order).start[0].is_nan());
    assert_eq!(jobs_of(&rows, &ONE_POOL, FULL, Policy::Order).end, [10.0]);
}

#[test]
fn a_blocked_job_is_not_delayed_by_backfilling() {
    // a node of two GPUs: one is taken for 10 s; the second job needs both; the third would end in time, the fourth would not
    let node = Hosts { pool: &[0], cores: &[8000], memory: &[0], gpus: &[2], trunk: &[f64::INFINITY] };
    let rows = [(0.0, 10.0, 1, 1000), (1.0, 5.0, 1, 2000), (2.0, 4.0, 1, 1000), (2.0, 20.0, 1, 1000)];
    assert_eq!(jobs_of(&rows, &node, FULL, Policy::Order).start, [0.0, 10.0, 15.0, 15.0]);
    assert_eq!(jobs_of(&rows, &node, FULL, Policy::Backfill).start, [0.0, 10.0, 2.0, 15.0]);
    assert_eq!(jobs_of(&rows, &node, FULL, Policy::Any).start, [0.0, 26.0, 2.0, 6.0], "the second never fits while others come");
}

#[test]
fn shares_of_a_gpu_lie_side_by_side() {
    let node = Hosts { pool: &[0], cores: &[8000], memory: &[0], gpus: &[1], trunk: &[f64::INFINITY] };
    let rows = [(0.0, 10.0, 1, 600), (0.0, 10.0, 1, 400), (0.0, 10.0, 1, 500), (0.0, 10.0, 1, 500)];
    let out = jobs_of(&rows, &node, FULL, Policy::Backfill);
    assert_eq!(out.start, [0.0, 0.0, 10.0, 10.0]);
    assert!((out.gpu_seconds - 20.0).abs() < 1e-9);
}

#[test]
fn a_full_trunk_slows_its_jobs_down_and_carries_no_more_than_it_can() {
    // two jobs of one GPU each move half of their time at 1 B/s on average; the trunk carries 1 B/s: phi = 3, both take twice as long
    let pool = Hosts { pool: &[0], cores: &[8000], memory: &[0], gpus: &[4], trunk: &[1.0] };
    let class = Class { slowdown: 1.0, bandwidth: 1.0, exposed: 0.5, moving: 0.5 };
    let out = jobs_of(&[(0.0, 10.0, 1, 1000), (0.0, 10.0, 1, 1000)], &pool, class, Policy::Order);
    assert!(out.end.iter().all(|e| (e - 20.0).abs() < 1e-6), "{:?}", out.end);
    // the second comes when the first is half done: 5 s alone, 10 s together (5 s of work), 5 s alone
    let out = jobs_of(&[(0.0, 10.0, 1, 1000), (5.0, 10.0, 1, 1000)], &pool, class, Policy::Order);
    assert!((out.end[0] - 15.0).abs() < 1e-6 && (out.end[1] - 20.0).abs() < 1e-6, "{:?}", out.end);
}

#[test]
fn what_is_free_while_a_job_waits_is_stranded() {
    // each node has one GPU left, and the third job needs two
    let rows = [(0.0, 10.0, 1, 1000), (0.0, 10.0, 8, 1000), (0.0, 1.0, 1, 2000)];
    let out = jobs_of(&rows, &TWO_NODES, FULL, Policy::Order);
    assert!(out.stranded_gpu_seconds > 0.0);
    assert_eq!(jobs_of(&rows[..2], &TWO_NODES, FULL, Policy::Order).stranded_gpu_seconds, 0.0);
}
