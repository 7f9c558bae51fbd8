/* The checksum of what goes in one direction, and the bytes themselves. */
#ifndef MANYPATH_CHECKSUM_H
#define MANYPATH_CHECKSUM_H

#include <stdio.h>

#include "sha256.h"

#define MAX_STREAMS 1024

/*
 * SHA-256 of the bytes of each stream, the digests of all streams used XORed; by_message: SHA-256 of each message, all
 * of them XORed.
 */
struct checksum {
	struct sha256 streams[MAX_STREAMS];
	uint8_t sum[32];
	uint64_t bytes, messages;
	int by_message, off;
};

static inline void checksum_start(struct checksum *c, int by_message) {
	c->by_message = by_message;
	for (int i = 0; i < MAX_STREAMS; i++)
		sha256_init(&c->streams[i]);
}

static inline void checksum_fold(struct checksum *c, unsigned stream) {
	uint8_t digest[32];

	sha256_finish(&c->streams[stream], digest);
	for (int i = 0; i < 32; i++)
		c->sum[i] ^= digest[i];
	sha256_init(&c->streams[stream]);
}

static inline void checksum_add(struct checksum *c, unsigned stream, const void *data, size_t size, int end_of_message) {
	if (!c->off)
		sha256_update(&c->streams[stream], data, size);
	c->bytes += size;
	c->messages += end_of_message != 0;
	if (end_of_message && c->by_message)
		checksum_fold(c, stream);
}

static inline const char *checksum_text(struct checksum *c, char text[65]) {
	if (!c->by_message)
		for (unsigned i = 0; i < MAX_STREAMS; i++)
			if (c->streams[i].length > 0)
				checksum_fold(c, i);
	for (int i = 0; i < 32; i++)
		sprintf(text + 2 * i, "%02x", c->sum[i]);
	return text;
}

/* Bytes that never repeat: xorshift64*. */
static inline void fill(uint8_t *buffer, size_t size, unsigned seed) {
	static uint64_t state;

	if (state == 0)
		state = 0x2545f4914f6cdd1dULL ^ seed;
	for (size_t i = 0; i < size; i++) {
		if (i % 8 == 0) {
			state ^= state >> 12;
			state ^= state << 25;
			state ^= state >> 27;
		}
		buffer[i] = (uint8_t)(state * 0x2545f4914f6cdd1dULL >> (56 - 8 * (i % 8)));
	}
}

#endif
