//! The programs that the tests run on the hosts: this test binary again, told by an environment
//! variable which one to be.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Call this from a test named `program`.
pub(crate) fn main() {
    let Ok(line) = std::env::var("LAB_TEST_PROGRAM") else { return };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["udp-echo", address] => udp_echo(address),
        ["udp-rtt", address, count] => udp_rtt(address, count.parse().unwrap()),
        ["udp-sink", address] => udp_sink(address),
        ["udp-blast", address, packets, bytes, gap_us] => {
            udp_blast(
                address,
                packets.parse().unwrap(),
                bytes.parse().unwrap(),
                gap_us.parse().unwrap(),
            );
        }
        ["tcp-sink", address] => tcp_sink(address),
        ["tcp-send", address, bytes] => tcp_send(address, bytes.parse().unwrap()),
        ["tcp-congestion", address] => tcp_congestion(address),
        ["sleep"] => {
            println!("ready");
            std::thread::sleep(Duration::from_secs(600));
        }
        _ => panic!("unknown program: {line}"),
    }
    std::process::exit(0);
}

fn udp_echo(address: &str) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    let mut bytes = [0; 2000];
    loop {
        let (len, from) = socket.recv_from(&mut bytes).unwrap();
        let _ = socket.send_to(&bytes[..len], from);
    }
}

/// Answers the smallest and the median round-trip time in microseconds, and how many came back.
fn udp_rtt(address: &str, count: u32) {
    let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let mut times = Vec::new();
    for number in 0..count {
        let start = Instant::now();
        socket.send(&number.to_le_bytes()).unwrap();
        let mut answer = [0; 4];
        while socket.recv(&mut answer).is_ok() {
            if answer == number.to_le_bytes() {
                times.push(start.elapsed().as_micros());
                break;
            }
        }
    }
    times.sort_unstable();
    let (least, median) = match times.len() {
        0 => (0, 0),
        n => (times[0], times[n / 2]),
    };
    println!("answer {least} {median} {}", times.len());
}

/// Says how many packets arrived and in how many microseconds from first to last, once it is quiet.
fn udp_sink(address: &str) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    let mut bytes = [0; 2000];
    let (mut packets, mut first, mut last) = (0, None, Instant::now());
    loop {
        match socket.recv(&mut bytes) {
            Ok(_) => {
                packets += 1;
                last = Instant::now();
                first.get_or_insert(last);
                socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            }
            Err(_) => {
                let span = first.map_or(0, |first: Instant| (last - first).as_micros());
                println!("received {packets} {span}");
                return;
            }
        }
    }
}

/// Sends packets of `bytes` of payload, `gap_us` apart (0: as fast as it can).
fn udp_blast(address: &str, packets: u32, bytes: usize, gap_us: u64) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(address).unwrap();
    let payload = vec![7; bytes];
    let start = Instant::now();
    for number in 0..packets {
        let due = start + Duration::from_micros(gap_us) * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = socket.send(&payload);
    }
    println!("answer sent");
}

/// Receives one connection; says bytes and microseconds from the first byte to the end.
fn tcp_sink(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    println!("ready");
    let (mut stream, _) = listener.accept().unwrap();
    let mut buffer = vec![0; 1 << 18];
    let (mut bytes, start) = (0, Instant::now());
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        bytes += len;
    }
    println!("received {bytes} {}", start.elapsed().as_micros());
}

fn tcp_send(address: &str, bytes: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    let chunk = vec![1; 1 << 17];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(chunk.len());
        stream.write_all(&chunk[..len]).unwrap();
        left -= len;
    }
    drop(stream);
    println!("answer sent");
}

/// Answers the congestion control of a connection.
fn tcp_congestion(address: &str) {
    let stream = TcpStream::connect(address).unwrap();
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: the buffer is valid for the length given.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&stream),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0);
    println!("answer {}", String::from_utf8_lossy(&name).trim_end_matches('\0'));
}
