//! The header for C is that of the structures in Rust.

use crate::support;

use manypath_sockets::header;
use support::{COMPILERS, Scratch, include, run};

#[test]
fn the_header_is_up_to_date() {
    let path = include().join("manypath_sctp.h");
    let text = header::text();
    if std::env::var_os("MANYPATH_RENEW").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "renew it: MANYPATH_RENEW=1 cargo test -p manypath-sctp --test it header::"
    );
}

#[test]
fn the_header_stands_alone_in_c_and_in_cpp() {
    let scratch = Scratch::new("header");
    for (suffix, standard) in [("c", "-std=c11"), ("cpp", "-std=c++17")] {
        let source = scratch.file(&format!("alone.{suffix}"), "#include \"manypath_sctp.h\"\n");
        for compiler in COMPILERS {
            let mut args = vec!["-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
            if suffix == "c" {
                args.push(standard);
            } else {
                args.extend(["-x", "c++", standard]);
            }
            run(
                compiler,
                &[&args[..], &["-D_GNU_SOURCE", "-I", &include().display().to_string(), &source]]
                    .concat(),
            );
        }
    }
}

#[test]
fn sizes_and_offsets_are_the_same_in_c_and_in_rust() {
    let scratch = Scratch::new("layout");
    let source = scratch.file("layout.c", &header::program());
    for compiler in COMPILERS {
        let program = scratch.path(compiler);
        run(compiler, &[&source, "-I", &include().display().to_string(), "-o", &program]);
        assert_eq!(run(&program, &[]), header::layouts());
    }
}

/// Programs that were compiled for the kernel's SCTP must find what they expect.
#[test]
fn sizes_and_offsets_are_those_of_linux() {
    if !std::path::Path::new("/usr/include/netinet/sctp.h").exists() {
        eprintln!("SKIPPED: no netinet/sctp.h (Debian package libsctp-dev)");
        return;
    }
    let scratch = Scratch::new("linux");
    let ours = header::program();
    // Linux calls some of them otherwise, and has no such structures for others.
    let theirs = ours
        .replace("\"manypath_sctp.h\"", "<netinet/sctp.h>")
        .replace("struct sctp_setprim", "struct sctp_prim")
        .replace("struct sctp_peeloff_arg", "peeloff");
    let theirs: String = theirs
        .lines()
        .filter(|line| {
            !line.contains("peeloff") && !line.contains("struct sctp_send_failed_event, ssfe_")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let source = scratch.file("linux.c", &theirs);
    let program = scratch.path("linux");
    run("gcc", &[&source, "-o", &program]);
    let found = run(&program, &[]);
    let expected = header::layouts();
    assert!(found.lines().count() > 200);
    for line in found.lines() {
        assert!(expected.lines().any(|own| own == line), "Linux has {line}");
    }
}
