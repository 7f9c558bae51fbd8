//! What the clients do: stock programs that move bytes both ways, and how these are checked.

use crate::common::{Finished, find, finish_within};
use crate::soak::dice::Dice;
use crate::soak::hosts::{Hosts, SOAK};
use crate::soak::ledger::{Carrier, Failure};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a program may usually take.
pub(crate) const LONGEST: Duration = Duration::from_secs(58);
/// How long its programs wait for the other end at most, usually.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long it may go on after that, until it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// One transfer.
pub(crate) struct Transfer<'a> {
    pub(crate) hosts: &'a Hosts,
    pub(crate) worker: usize,
    pub(crate) carrier: Carrier,
    /// Where it may put files.
    pub(crate) dir: &'a Path,
    pub(crate) dice: &'a mut Dice,
    /// A program that takes longer hangs.
    pub(crate) longest: Duration,
}

/// What was done, and what came of it.
pub(crate) type Done = (&'static str, String, Result<u64, Failure>);

impl Transfer<'_> {
    /// Does one of them.
    pub(crate) fn any(&mut self) -> Done {
        if self.carrier == Carrier::Door {
            return if self.dice.range(0, 2) == 0 { self.half_close() } else { self.small() };
        }
        // Datagrams are carried by launchers alone.
        if self.carrier == Carrier::Run && self.dice.range(0, 14) == 0 {
            return self.datagrams();
        }
        // Those that are cheap come more often.
        match self.dice.range(0, 13) {
            0..3 => self.download(),
            3 | 4 => self.upload(),
            5 => self.many(),
            6 | 7 => self.half_close(),
            8 => self.small(),
            9 => self.broken(),
            10 => self.breaks(),
            11 => self.rsync(),
            _ => self.scp(),
        }
    }

    /// A transfer for a comparison of `carrier` with plain TCP: with the same dice it is the same by both.
    pub(crate) fn comparable(&mut self, carrier: Carrier) -> Done {
        let kinds = if carrier == Carrier::Door { 4 } else { 11 };
        match self.dice.range(0, kinds) {
            0 => self.half_close(),
            1 => self.small(),
            2 | 3 => self.pausing_sender(),
            4 | 5 => self.pausing_reader(),
            6 | 7 => self.download(),
            8 => self.upload(),
            9 => self.rsync(),
            _ => self.scp(),
        }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.hosts.client(self.carrier, self.worker, program, args);
        let patience = self.longest.saturating_sub(LONGEST) + PATIENCE;
        command.env("MANYPATH_SOAK_LIMIT", patience.as_secs().to_string());
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Finished, Failure> {
        let done = finish_within(self.command(program, args), self.longest + GRACE);
        judge(done, self.longest)
    }

    /// A port of the server, the one for clients of its door or the other.
    fn digest_port(&self) -> &'static str {
        if self.carrier == Carrier::Door { "7100" } else { "7000" }
    }

    fn served(&mut self) -> (String, PathBuf) {
        let (name, path) = self.dice.pick(&self.hosts.files);
        (name.clone(), path.clone())
    }

    fn download(&mut self) -> Done {
        let (name, path) = self.served();
        let copy = self.dir.join("download");
        let url = format!("http://{}:8080/{name}", self.hosts.server);
        let args = ["-sSv", "-f", "-o", &copy.display().to_string(), &url];
        let done = self.run("curl", &args);
        ("download", format!("curl {name}"), compare(done, &path, &copy))
    }

    fn upload(&mut self) -> Done {
        let (name, path) = self.served();
        let url = format!("http://{}:7001/up", self.hosts.server);
        let args = ["-sSv", "-f", "-H", "Expect:", "-T", &path.display().to_string(), &url];
        let done = self.run("curl", &args).and_then(|done| {
            let content = fs::read(&path).expect("the file");
            same(done.stdout.trim(), &hex(&content), content.len())
        });
        ("upload", format!("curl -T {name}"), done)
    }

    /// Connections of their own for a small file, ten at a time.
    fn many(&mut self) -> Done {
        let (count, out) = (self.dice.range(5, 40), self.dir.join("many"));
        let url = format!("http://{}:8080/f0?[1-{count}]", self.hosts.server);
        let out = format!("{}-#1", out.display());
        let base = ["-sS", "-f", "-Z", "--parallel-max", "10", "-H", "Connection: close"];
        let done = self.run("curl", &[&base[..], &["-o", &out, &url]].concat());
        let original = &self.hosts.files[0].1;
        let mut all = done.map(|_| 0);
        for number in 1..=count {
            let copy = PathBuf::from(out.replace("#1", &number.to_string()));
            let checked = |bytes| compare_files(original, &copy).map(|more| bytes + more);
            all = all.and_then(checked);
            let _ = fs::remove_file(&copy);
        }
        ("many", format!("curl -Z {count} times f0"), all)
    }

    /// The answer comes after the end of what was sent, over the other half of the connection.
    fn half_close(&mut self) -> Done {
        let (name, path) = self.served();
        let (server, port) = (&self.hosts.server, self.digest_port());
        let line =
            format!("exec {} -vN {server} {port} < {}", find("nc").display(), path.display());
        let done = self.run("sh", &["-c", &line]).and_then(|done| {
            let content = fs::read(&path).expect("the file");
            let answer = done.stdout.lines().nth(1).unwrap_or_default();
            // The end without an answer is how nc tells of a reset.
            if answer.is_empty() {
                return Err(Failure::Broken(format!("no answer: {done:?}")));
            }
            same(answer, &format!("{} {}", hex(&content), content.len()), content.len())
        });
        ("half-close", format!("nc -N < {name}"), done)
    }

    fn python(&self, args: &[&str], bytes: u64) -> Result<u64, Failure> {
        self.run("python3", &[&[SOAK], args].concat()).map(|_| bytes)
    }

    fn small(&mut self) -> Done {
        let (count, seed) = (self.dice.range(2, 12).to_string(), self.dice.next().to_string());
        let server = &self.hosts.server;
        let done = self.python(&["small", server, self.digest_port(), &count, &seed], 0);
        ("small", format!("small {count} {seed}"), done)
    }

    /// A connection that is idle for seconds between the pieces of what it sends.
    fn pausing_sender(&mut self) -> Done {
        let (count, seed) = (self.dice.range(2, 6).to_string(), self.dice.next().to_string());
        let args = ["pausing-sender", &self.hosts.server, self.digest_port(), &count, &seed];
        ("pausing sender", format!("pausing-sender {count} {seed}"), self.python(&args, 0))
    }

    /// A reader that lets the sender wait for seconds.
    fn pausing_reader(&mut self) -> Done {
        let ((name, path), seed) = (self.served(), self.dice.next().to_string());
        let args = [SOAK, "pausing-reader", &self.hosts.server, "8080", &format!("/{name}"), &seed];
        let done = self.run("python3", &args).and_then(|done| {
            let content = fs::read(&path).expect("the file");
            same(done.stdout.trim(), &hex(&content), content.len())
        });
        ("pausing reader", format!("pausing-reader {name} {seed}"), done)
    }

    fn broken(&mut self) -> Done {
        let count = self.dice.size(1 << 10, 1 << 20).to_string();
        let done = self.python(&["broken", &self.hosts.server, "7002", &count], 0);
        ("reset by server", format!("broken {count}"), done)
    }

    fn breaks(&mut self) -> Done {
        let (name, path) = self.hosts.files.last().expect("files");
        let length = fs::metadata(path).expect("the file").len();
        let count = self.dice.size(1 << 10, length / 2).to_string();
        let args = ["breaks", &self.hosts.server, "8080", &format!("/{name}"), &count];
        ("reset by client", format!("breaks {count}"), self.python(&args, 0))
    }

    fn datagrams(&mut self) -> Done {
        let (count, seed) = (self.dice.range(5, 60).to_string(), self.dice.next().to_string());
        let done = self.python(&["datagrams", &self.hosts.server, "7003", &count, &seed], 0);
        ("datagrams", format!("datagrams {count} {seed}"), done)
    }

    fn rsync(&mut self) -> Done {
        let (name, path) = self.served();
        let copy = self.dir.join("rsync");
        let from = format!("rsync://{}:8730/files/{name}", self.hosts.server);
        let done = self.run("rsync", &["--inplace", &from, &copy.display().to_string()]);
        ("rsync", format!("rsync {name}"), compare(done, &path, &copy))
    }

    fn scp(&mut self) -> Done {
        let (name, path) = self.served();
        let copy = self.dir.join("scp");
        let (here, there) = (path.display().to_string(), copy.display().to_string());
        let at = |file: &str| format!("{}@{}:{file}", self.hosts.user, self.hosts.server);
        let up = self.dice.range(0, 2) == 0;
        let ends = if up { [here, at(&there)] } else { [at(&here), there] };
        let options: Vec<&str> = self.hosts.ssh_options.iter().map(String::as_str).collect();
        // What it says of its connection tells why it failed.
        let options: Vec<&str> = options.into_iter().filter(|one| *one != "-q").collect();
        let args = [&options[..], &["-P", "2222", &ends[0], &ends[1]]].concat();
        let done = self.run("scp", &args);
        ("scp", format!("scp {name}, up: {up}"), compare(done, &path, &copy))
    }
}

/// Whether a program ended well; else whether what it says is that its connection broke.
fn judge(done: Finished, longest: Duration) -> Result<Finished, Failure> {
    if done.time > longest {
        return Err(Failure::Wrong(format!("it hung: {done:?}")));
    }
    if done.stderr.contains("AssertionError") {
        return Err(Failure::Wrong(format!("{done:?}")));
    }
    if done.code == Some(0) { Ok(done) } else { Err(Failure::Broken(format!("{done:?}"))) }
}

/// A copy that a program says to have made must be whole; what a broken connection leaves behind must be
/// the beginning of it.
fn compare(done: Result<Finished, Failure>, original: &Path, copy: &Path) -> Result<u64, Failure> {
    let result = match done {
        Ok(_) => compare_files(original, copy),
        Err(Failure::Broken(said)) => {
            let (expected, got) = (fs::read(original), fs::read(copy).unwrap_or_default());
            let beginning = expected.expect("the file").starts_with(&got);
            Err(if beginning { Failure::Broken(said) } else { Failure::Wrong(said) })
        }
        Err(wrong) => Err(wrong),
    };
    let _ = fs::remove_file(copy);
    result
}

fn compare_files(original: &Path, copy: &Path) -> Result<u64, Failure> {
    let (expected, got) = (fs::read(original).expect("the file"), fs::read(copy));
    let got = got.map_err(|error| Failure::Wrong(format!("{}: {error}", copy.display())))?;
    same(&hex(&got), &hex(&expected), expected.len())
}

fn same(got: &str, expected: &str, bytes: usize) -> Result<u64, Failure> {
    if got == expected {
        return Ok(bytes as u64);
    }
    Err(Failure::Wrong(format!("{got} in place of {expected}")))
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
