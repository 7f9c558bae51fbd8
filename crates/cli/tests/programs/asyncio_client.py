"""Fetches /small twenty times in parallel over raw asyncio streams, half-closing after the request."""
import asyncio
import sys


async def fetch(host, port):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET /small HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return len(answer.split(b"\r\n\r\n", 1)[1])


async def main():
    sizes = await asyncio.gather(*(fetch(sys.argv[1], int(sys.argv[2])) for _ in range(20)))
    print(len(sizes), set(sizes))


asyncio.run(main())
