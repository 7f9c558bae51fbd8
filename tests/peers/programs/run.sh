#!/usr/bin/env bash
# One end of a transfer by a program that was made for the kernel's SCTP.
#
#     run.sh PROGRAM listen|connect OWN FAR kernel                          as it is
#     run.sh PROGRAM listen|connect OWN FAR preload MANYPATH udp|native     by `manypath run --sctp`
#     run.sh PROGRAM listen|connect OWN FAR peer PEER                       ../sockets/peer.c in the program's place
#
# OWN, FAR: addresses. Prints what the program prints, and at the end "RESULT" and what has gone over: both ends must
# say the same. sha256 is that of the bytes of one stream, as in ../sockets/checksum.h.
set -u -o pipefail

program=$1 role=$2 own=$3 far=$4 how=$5
case $how in
    kernel) under=() ;;
    preload) under=("$6" preload --encapsulation "$7" --) ;;
    peer) peer=$6 ;;
esac
here=$(dirname "$0")
port=5001 own_port=5002 bytes=3000000

under() {
    "${under[@]}" "$@"
}

# The same bytes for everyone who makes some up.
content() {
    python3 -c "import random, sys; sys.stdout.buffer.write(random.Random(1).randbytes($bytes))"
}

sum() {
    sha256sum | while read -r sum _; do echo "RESULT sha256 $sum"; done
}

# Adds up the numbers that the expression finds in lines, until one has the second argument, or there are no more.
add_up() {
    local total=0 line
    while read -r line; do
        echo "$line"
        if [[ $line =~ $1 ]]; then total=$((total + BASH_REMATCH[1])); fi
        if [ -n "$2" ] && [[ $line == *$2* ]]; then break; fi
    done
    echo "RESULT $total bytes"
}

# What iperf3 tells of both directions. It ends when one of them is complete.
measured() {
    python3 -c "
import json, sys
end = json.load(sys.stdin).get('end', {})
got = [end.get(name, {}).get('bytes', 0) for name in ('sum_received', 'sum_received_bidir_reverse')]
print('RESULT a measurement' if max(got) > 15e6 and min(got) > 2e6 else f'no measurement: {end}')"
}

# A field of what ../sockets/peer.c says of itself.
field() {
    python3 -c "
import json, sys
for line in sys.stdin:
    print(line, end='', flush=True)
    if line.startswith('{'):
        print('RESULT', '$1'.format(**json.loads(line)), flush=True)"
}

# ncat listens for as long as its standard input is open: at its end it closes the connection.
ncat_listen() { sleep 60 2>/dev/null | under ncat -v --sctp -l "$own" $port --recv-only | sum; }
ncat_connect() { content | under ncat --sctp --send-only "$far" $port && content | sum; }

sctp_test_listen() {
    under stdbuf -oL sctp_test -H "$own" -P $port -l | add_up 'Data ([0-9]+) bytes' SHUTDOWN_COMPLETE
}
sctp_test_connect() {
    under sctp_test -H "$own" -P $own_port -h "$far" -p $port -s -c 4 -o 1 -x 3 | add_up ' ([0-9]+) bytes' ''
}

sctp_darn_listen() { under stdbuf -oL sctp_darn -H "$own" -P $port -l 2>&1 | add_up 'DATA\(([0-9]+)\)' SHUTDOWN_COMP; }
# It ends with 7 at the end of its input, and adds a NUL to each line.
sctp_darn_connect() {
    (echo hello; sleep 1; echo world; sleep 1) | under sctp_darn -H "$own" -P $own_port -h "$far" -p $port -s
    echo; echo "RESULT 14 bytes"
}

iperf3_listen() { under iperf3 -s -1 -B "$own" --forceflush && echo "RESULT a measurement"; }
iperf3_connect() { under iperf3 --sctp -c "$far" -n 20M --bidir --json | measured; }

erlang_listen() { under escript "$here/transfer.escript" listen "$own" $port 2>&1 | add_up '^([0-9]+) bytes' shutdown_comp; }
erlang_connect() { under escript "$here/transfer.escript" connect "$own" "$far" $port | add_up '^([0-9]+) bytes' ''; }

# ../sockets/peer.c instead
peer_listen() {
    case $program in
        ncat) "$peer" listen "$own" receive=$bytes wait=1 seconds=30 ;;
        *) "$peer" listen "$own" receive=1 wait=1 seconds=30 ;;
    esac 2>&1 | field "$(expected received)"
}
peer_connect() {
    case $program in
        ncat) "$peer" connect "$own" "$far" send=$bytes seconds=30 ;;
        *) "$peer" connect "$own" "$far" send=100000 message=5000 seconds=30 ;;
    esac 2>&1 | field "$(expected sent)"
}
expected() {
    case $program in
        ncat) echo "sha256 {${1}_digest}" ;;
        *) echo "{$1} bytes" ;;
    esac
}

if [ "$how" = peer ]; then "peer_$role"; else "${program}_$role"; fi
