//! A download by an unmodified program while something happens to the uplinks of its host, and what
//! could be seen of that.

use crate::common::Site;
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The file: more than any course takes.
pub(crate) const FILE: u64 = 64 << 20;
/// From the first byte until something happens.
pub(crate) const WARM_UP: Duration = Duration::from_millis(2500);
/// A bucket of the lab's counters that carries data, and not only what keeps a path alive.
const BUSY: u64 = 8_000;

/// Something that happens, so long after the first of such things.
pub(crate) type Happening<'a> = (Duration, Box<dyn FnMut(&Site) + 'a>);

/// What was seen from the first happening on.
#[derive(Debug)]
pub(crate) struct Course {
    /// The longest time in which the program got nothing.
    pub(crate) gap: Duration,
    /// What it got, in bytes per second.
    pub(crate) goodput: f64,
    /// When each path of the lab carried data to the client first, and when last.
    pub(crate) carried: Vec<Option<(Duration, Duration)>>,
}

/// Downloads the file, lets things happen, and watches for `watch` from the first of them.
pub(crate) fn download(
    site: &Site,
    server: &str,
    happenings: Vec<Happening<'_>>,
    watch: Duration,
) -> Course {
    let content = std::fs::read(site.dir.join("www/file")).expect("the file");
    let url = format!("http://{server}:8080/file");
    let log = client_log(site).display().to_string();
    let args = ["-s", "-f", "-N", &url];
    let mut command = site.through_command(&["-v", "--log", &log], "curl", &args);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("curl");
    let mut stream = child.stdout.take().expect("its output");
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            let read = stream.read(&mut buffer).unwrap_or(0);
            assert!(content[received..].starts_with(&buffer[..read]), "damaged after {received}");
            received += read;
            if tell.send((Instant::now(), read)).is_err() || read == 0 {
                return;
            }
        }
    });
    let first = told.recv_timeout(Duration::from_secs(20)).expect("a first byte");
    assert!(first.1 > 0, "the download ended at once");
    let begun = first.0 + WARM_UP;
    let origin = site.lab.elapsed().expect("the lab's clock") + (begun - Instant::now());
    for (after, mut happening) in happenings {
        std::thread::sleep((begun + after).saturating_duration_since(Instant::now()));
        happening(site);
    }
    std::thread::sleep((begun + watch).saturating_duration_since(Instant::now()));
    let arrivals: Vec<_> = told.try_iter().collect();
    let carried = carried(site, origin);
    drop(told);
    let _ = child.kill();
    let _ = child.wait();
    reader.join().expect("what arrives is what was sent");
    assert!(arrivals.iter().all(|(_, read)| *read > 0), "the download ended");
    let arrivals = arrivals.into_iter().filter(|(at, _)| *at >= begun);
    summarize(begun, arrivals.collect(), watch, carried)
}

fn summarize(
    begun: Instant,
    arrivals: Vec<(Instant, usize)>,
    watch: Duration,
    carried: Vec<Option<(Duration, Duration)>>,
) -> Course {
    let ends = arrivals.iter().map(|(at, _)| *at).chain([begun + watch]);
    let starts = std::iter::once(begun).chain(arrivals.iter().map(|(at, _)| *at));
    let gap = starts.zip(ends).map(|(a, b)| b.saturating_duration_since(a)).max();
    let bytes: usize = arrivals.iter().map(|(_, read)| read).sum();
    let goodput = bytes as f64 / watch.as_secs_f64();
    Course { gap: gap.unwrap_or(watch), goodput, carried }
}

/// When each path was busy, from `origin` on.
fn carried(site: &Site, origin: Duration) -> Vec<Option<(Duration, Duration)>> {
    let samples = site.lab.samples(0).expect("samples");
    let first = (origin.as_nanos() / samples.bucket.as_nanos()) as u64;
    let skipped = usize::try_from(first.saturating_sub(samples.first)).expect("a few");
    let time = |index: usize| samples.bucket * u32::try_from(index).expect("a few");
    let busy = |bytes: &[u64]| {
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let first = bytes.iter().position(|bytes| *bytes >= BUSY)?;
        let last = bytes.iter().rposition(|bytes| *bytes >= BUSY)?;
        Some((time(first), time(last)))
    };
    samples.paths.iter().map(|path| busy(&path.towards_left)).collect()
}

fn client_log(site: &Site) -> PathBuf {
    site.dir.join("client.log")
}

/// How many lines of the log of the client's stack say `what`.
pub(crate) fn logged(site: &Site, what: &str) -> usize {
    let log = std::fs::read_to_string(client_log(site)).expect("the log");
    log.lines().filter(|line| line.contains(what)).count()
}

/// What plain TCP gets from `server` in `watch`, after a warm-up, in bytes per second.
pub(crate) fn plain(site: &Site, server: &str, watch: Duration) -> f64 {
    let seconds = (WARM_UP + watch).as_secs().to_string();
    let url = format!("http://{server}:8080/file");
    let format = "%{size_download} %{time_total} %{time_starttransfer}";
    let args = ["-s", "-m", &seconds, "-o", "/dev/null", "-w", format, &url];
    let done = site.direct("curl", &args);
    let figures: Vec<f64> =
        done.stdout.split_whitespace().map(|it| it.parse().expect("a figure")).collect();
    figures[0] / (figures[1] - figures[2])
}
