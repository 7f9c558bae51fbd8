-- A dissector for Wireshark and tshark of what docs/key-management.md and draft-ietf-tsvwg-sctp-dtls-chunk add to SCTP:
-- the DTLS chunk, the DTLS Key Management parameter, key management messages (PPID 4242) and error causes. With a key log
-- it opens DTLS chunks and shows the chunks in them:
--
--     tshark -X lua_script:sctp_dtls.lua -o sctp_dtls.keylog:keys.log -r capture.pcapng
--
-- The ciphers are in Lua, so that it needs no more than Wireshark's interpreter (5.2 and later), whose GcryptCipher not
-- every version in use has. They are slow: cut large captures down to what is of interest before.

-- Operations on 32 bits: a library of Lua 5.2, operators since 5.3.
local band, bor, bxor, lshift, rshift, rotl
if bit32 then
    band, bor, bxor = bit32.band, bit32.bor, bit32.bxor
    lshift, rshift, rotl = bit32.lshift, bit32.rshift, bit32.lrotate
else
    band, bor, bxor, lshift, rshift, rotl = load([[
        local M = 0xFFFFFFFF
        return function(a, b) return a & b & M end,
            function(a, b) return (a | b) & M end,
            function(a, b, c, d, e) return (a ~ b ~ (c or 0) ~ (d or 0) ~ (e or 0)) & M end,
            function(a, n) return a << n & M end,
            function(a, n) return (a & M) >> n end,
            function(a, n) return (a << n | (a & M) >> 32 - n) & M end
    ]])()
end

local function word(text, at) -- big endian
    local a, b, c, d = text:byte(at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end

local function word_le(text, at)
    local a, b, c, d = text:byte(at, at + 3)
    return ((d * 256 + c) * 256 + b) * 256 + a
end

local function octets(value) -- big endian
    return string.char(rshift(value, 24), band(rshift(value, 16), 255), band(rshift(value, 8), 255), band(value, 255))
end

local function octets_le(value)
    return octets(value):reverse()
end

local function xor(a, b)
    local out = {}
    for i = 1, #a do
        out[i] = string.char(bxor(a:byte(i), b:byte(i)))
    end
    return table.concat(out)
end

local function zeros(count)
    return ("\0"):rep(count)
end

-- AES (FIPS 197), by tables: T0 to T3 are SubBytes, ShiftRows and MixColumns in one.
local S, T0, T1, T2, T3 = {}, {}, {}, {}, {}
do
    local function double(x)
        x = x * 2
        return x > 255 and bxor(x, 0x11B) or x
    end
    local p, q = 1, 1
    repeat -- p runs through all of the field by the generator 3, q through the inverses
        p = bxor(p, double(p))
        for _, n in ipairs { 1, 2, 4 } do
            q = bxor(q, band(lshift(q, n), 255))
        end
        if q > 127 then q = bxor(q, 0x09) end
        local x = q
        for n = 1, 4 do
            x = bxor(x, band(bor(lshift(q, n), rshift(q, 8 - n)), 255))
        end
        S[p] = bxor(x, 0x63)
    until p == 1
    S[0] = 0x63
    for i = 0, 255 do
        local s = S[i]
        local s2 = double(s)
        T0[i] = ((s2 * 256 + s) * 256 + s) * 256 + bxor(s, s2)
        T1[i], T2[i], T3[i] = rotl(T0[i], 24), rotl(T0[i], 16), rotl(T0[i], 8)
    end
end

local function sub_word(w)
    return ((S[rshift(w, 24)] * 256 + S[band(rshift(w, 16), 255)]) * 256 + S[band(rshift(w, 8), 255)]) * 256 +
        S[band(w, 255)]
end

-- A function that encrypts four words.
local function aes(key)
    local w, n = {}, #key / 4
    local rounds = n + 6
    for i = 0, n - 1 do
        w[i] = word(key, 4 * i + 1)
    end
    local rcon = 1
    for i = n, 4 * rounds + 3 do
        local t = w[i - 1]
        if i % n == 0 then
            t = bxor(sub_word(rotl(t, 8)), lshift(rcon, 24))
            rcon = rcon * 2
            if rcon > 255 then rcon = bxor(rcon, 0x11B) end
        elseif n > 6 and i % n == 4 then
            t = sub_word(t)
        end
        w[i] = bxor(w[i - n], t)
    end
    return function(a, b, c, d)
        a, b, c, d = bxor(a, w[0]), bxor(b, w[1]), bxor(c, w[2]), bxor(d, w[3])
        local function mix(x, y, z, v, k)
            return bxor(T0[rshift(x, 24)], T1[band(rshift(y, 16), 255)], T2[band(rshift(z, 8), 255)], T3[band(v, 255)], k)
        end
        for r = 4, 4 * rounds - 4, 4 do
            a, b, c, d = mix(a, b, c, d, w[r]), mix(b, c, d, a, w[r + 1]), mix(c, d, a, b, w[r + 2]), mix(d, a, b, c, w[r + 3])
        end
        local function last(x, y, z, v, k)
            return bxor(((S[rshift(x, 24)] * 256 + S[band(rshift(y, 16), 255)]) * 256 + S[band(rshift(z, 8), 255)]) * 256 +
                S[band(v, 255)], k)
        end
        local r = 4 * rounds
        return last(a, b, c, d, w[r]), last(b, c, d, a, w[r + 1]), last(c, d, a, b, w[r + 2]), last(d, a, b, c, w[r + 3])
    end
end

local function words(text)
    return word(text, 1), word(text, 5), word(text, 9), word(text, 13)
end

-- GHASH (NIST SP 800-38D section 6.4), an octet at a time.
local reduction = {}
for i = 0, 255 do
    local r = 0
    for n = 0, 7 do
        if band(i, 2 ^ n) ~= 0 then r = bxor(r, rshift(0xE1000000, 7 - n)) end
    end
    reduction[i] = r
end

local function ghash(h0, h1, h2, h3)
    local A, B, C, D = { [0] = 0 }, { [0] = 0 }, { [0] = 0 }, { [0] = 0 }
    local a, b, c, d = h0, h1, h2, h3
    for _, i in ipairs { 128, 64, 32, 16, 8, 4, 2, 1 } do
        A[i], B[i], C[i], D[i] = a, b, c, d
        local carry = band(d, 1)
        d, c = bor(rshift(d, 1), lshift(band(c, 1), 31)), bor(rshift(c, 1), lshift(band(b, 1), 31))
        b, a = bor(rshift(b, 1), lshift(band(a, 1), 31)), bxor(rshift(a, 1), carry * 0xE1000000)
    end
    for _, i in ipairs { 2, 4, 8, 16, 32, 64, 128 } do
        for j = 1, i - 1 do
            A[i + j], B[i + j] = bxor(A[i], A[j]), bxor(B[i], B[j])
            C[i + j], D[i + j] = bxor(C[i], C[j]), bxor(D[i], D[j])
        end
    end
    return function(text) -- whole blocks
        local y = { 0, 0, 0, 0 }
        for at = 1, #text, 16 do
            local x = { words(text:sub(at, at + 15)) }
            for i = 1, 4 do
                y[i] = bxor(y[i], x[i])
            end
            local z0, z1, z2, z3 = 0, 0, 0, 0
            for i = 4, 1, -1 do
                for shift = 0, 24, 8 do
                    local out = band(z3, 255)
                    z3 = bor(rshift(z3, 8), lshift(band(z2, 255), 24))
                    z2 = bor(rshift(z2, 8), lshift(band(z1, 255), 24))
                    z1 = bor(rshift(z1, 8), lshift(band(z0, 255), 24))
                    z0 = bxor(rshift(z0, 8), reduction[out])
                    local octet = band(rshift(y[i], shift), 255)
                    z0, z1, z2, z3 = bxor(z0, A[octet]), bxor(z1, B[octet]), bxor(z2, C[octet]), bxor(z3, D[octet])
                end
            end
            y = { z0, z1, z2, z3 }
        end
        return octets(y[1]) .. octets(y[2]) .. octets(y[3]) .. octets(y[4])
    end
end

local function padded(text)
    return text .. zeros(-#text % 16)
end

local function gcm(key)
    local encrypt = aes(key)
    local hash = ghash(encrypt(0, 0, 0, 0))
    local function block(nonce, counter)
        local a, b, c, d = encrypt(word(nonce, 1), word(nonce, 5), word(nonce, 9), counter)
        return octets(a) .. octets(b) .. octets(c) .. octets(d)
    end
    return {
        stream = function(nonce, number) return block(nonce, number + 2) end,
        size = 16,
        tag = function(nonce, additional, ciphertext)
            local lengths = zeros(4) .. octets(#additional * 8) .. zeros(4) .. octets(#ciphertext * 8)
            return xor(hash(padded(additional) .. padded(ciphertext) .. lengths), block(nonce, 1))
        end,
    }
end

local function aes_mask(key)
    local encrypt = aes(key)
    return function(sample) return octets((encrypt(words(sample)))) end
end

-- ChaCha20 and Poly1305 (RFC 8439).
local function chacha_block(key, counter, nonce)
    local s = { 0x61707865, 0x3320646E, 0x79622D32, 0x6B206574 }
    for at = 1, 29, 4 do
        s[#s + 1] = word_le(key, at)
    end
    s[13], s[14], s[15], s[16] = counter, word_le(nonce, 1), word_le(nonce, 5), word_le(nonce, 9)
    local x = {}
    for i = 1, 16 do
        x[i] = s[i]
    end
    local function quarter(a, b, c, d)
        x[a] = (x[a] + x[b]) % 2 ^ 32 ; x[d] = rotl(bxor(x[d], x[a]), 16)
        x[c] = (x[c] + x[d]) % 2 ^ 32 ; x[b] = rotl(bxor(x[b], x[c]), 12)
        x[a] = (x[a] + x[b]) % 2 ^ 32 ; x[d] = rotl(bxor(x[d], x[a]), 8)
        x[c] = (x[c] + x[d]) % 2 ^ 32 ; x[b] = rotl(bxor(x[b], x[c]), 7)
    end
    for _ = 1, 10 do
        quarter(1, 5, 9, 13) quarter(2, 6, 10, 14) quarter(3, 7, 11, 15) quarter(4, 8, 12, 16)
        quarter(1, 6, 11, 16) quarter(2, 7, 12, 13) quarter(3, 8, 9, 14) quarter(4, 5, 10, 15)
    end
    local out = {}
    for i = 1, 16 do
        out[i] = octets_le((x[i] + s[i]) % 2 ^ 32)
    end
    return table.concat(out)
end

-- Numbers of 130 bits in ten limbs of 13, the lowest first: their products stay exact in a double.
local function limbs(text)
    local out, value, bits = {}, 0, 0
    for i = 1, #text do
        value, bits = value + text:byte(i) * 2 ^ bits, bits + 8
        while bits >= 13 do
            out[#out + 1] = value % 8192
            value, bits = math.floor(value / 8192), bits - 13
        end
    end
    out[#out + 1] = value
    for i = #out + 1, 10 do
        out[i] = 0
    end
    return out
end

-- Carries what is above 13 bits; 2^130 is 5.
local function carry(h)
    local over = 0
    for _ = 1, 2 do
        for i = 1, 10 do
            local value = h[i] + over
            h[i], over = value % 8192, math.floor(value / 8192)
        end
        over = over * 5
    end
    h[1] = h[1] + over
end

local function poly1305(key, text)
    local clamp = { [4] = 15, [8] = 15, [12] = 15, [16] = 15, [5] = 252, [9] = 252, [13] = 252 }
    local clamped = {}
    for i = 1, 16 do
        clamped[i] = string.char(band(key:byte(i), clamp[i] or 255))
    end
    local r, h = limbs(table.concat(clamped)), limbs("")
    for at = 1, #text, 16 do
        local m = limbs(text:sub(at, at + 15) .. "\1")
        local product = {}
        for i = 1, 10 do
            h[i] = h[i] + m[i]
        end
        for k = 1, 10 do
            local sum = 0
            for i = 1, 10 do
                local j = k - i + 1
                sum = sum + h[i] * (j > 0 and r[j] or 5 * r[j + 10])
            end
            product[k] = sum
        end
        h = product
        carry(h)
    end
    carry(h)
    -- h - (2^130 - 5) if that is not negative
    local g, over = {}, 5
    for i = 1, 10 do
        local value = h[i] + over
        g[i], over = value % 8192, math.floor(value / 8192)
    end
    if over > 0 then h = g end
    local out, value, bits, at, sum = {}, 0, 0, 1, 0
    for i = 1, 16 do
        while bits < 8 do
            value, bits, at = value + h[at] * 2 ^ bits, bits + 13, at + 1
        end
        sum = sum + value % 256 + key:byte(16 + i)
        out[i] = string.char(sum % 256)
        sum, value, bits = math.floor(sum / 256), math.floor(value / 256), bits - 8
    end
    return table.concat(out)
end

local function chacha20_poly1305(key)
    return {
        stream = function(nonce, number) return chacha_block(key, number + 1, nonce) end,
        size = 64,
        tag = function(nonce, additional, ciphertext)
            local lengths = octets_le(#additional) .. zeros(4) .. octets_le(#ciphertext) .. zeros(4)
            local text = padded(additional) .. padded(ciphertext) .. lengths
            return poly1305(chacha_block(key, 0, nonce):sub(1, 32), text)
        end,
    }
end

local function chacha_mask(key)
    return function(sample) return chacha_block(key, word_le(sample, 1), sample:sub(5)):sub(1, 4) end
end

local SUITES = {
    [0x1301] = { "TLS_AES_128_GCM_SHA256", gcm, aes_mask },
    [0x1302] = { "TLS_AES_256_GCM_SHA384", gcm, aes_mask },
    [0x1303] = { "TLS_CHACHA20_POLY1305_SHA256", chacha20_poly1305, chacha_mask },
}

-- The record layer (RFC 9147 section 4).

local HEADER_LEN, TAG_LEN, APPLICATION_DATA = 3, 16, 23
-- So many times 2^16 records are sent with a key of AES-GCM (RFC 8446 section 5.5).
local TURNS = 362

local function nonce_of(key, sequence)
    return xor(key.iv, zeros(6) .. octets(math.floor(sequence / 2 ^ 32)):sub(3) .. octets(sequence % 2 ^ 32))
end

-- The content of a record that has this sequence number, and nil if it is not authentic.
local function open_as(key, record, low, sequence)
    local aead, nonce = key.aead, nonce_of(key, sequence)
    local ciphertext = record:sub(HEADER_LEN + 1, -TAG_LEN - 1)
    -- The last octet is a content type or padding: that is seen sooner than whether the tag is right.
    local last = #ciphertext - 1
    local stream = aead.stream(nonce, math.floor(last / aead.size))
    local octet = bxor(ciphertext:byte(-1), stream:byte(last % aead.size + 1))
    if octet ~= APPLICATION_DATA and octet ~= 0 then return nil end
    if aead.tag(nonce, record:sub(1, 1) .. low, ciphertext) ~= record:sub(-TAG_LEN) then return nil end
    local out = {}
    for at = 0, last, aead.size do
        local part = ciphertext:sub(at + 1, at + aead.size)
        out[#out + 1] = xor(part, aead.stream(nonce, at / aead.size))
    end
    local inner = table.concat(out)
    local len = #inner
    while inner:byte(len) == 0 do -- padding
        len = len - 1
    end
    return inner:byte(len) == APPLICATION_DATA and inner:sub(1, len - 1) or nil
end

local function open(key, record)
    local mask = key.mask(record:sub(HEADER_LEN + 1, HEADER_LEN + 16))
    local low = xor(record:sub(2, 3), mask:sub(1, 2))
    local number = low:byte(1) * 256 + low:byte(2)
    local first, last = 0, TURNS
    if key.expected then
        -- The number with these low bits that is closest to the one expected.
        first = math.max(0, math.floor((key.expected - number) / 65536 + 0.5))
        last = first
    end
    for turn = first, last do
        local sequence = turn * 65536 + number
        local content = open_as(key, record, low, sequence)
        if content then
            key.expected = math.max(key.expected or 0, sequence + 1)
            return content, sequence
        end
    end
end

-- What is dissected.

local proto = Proto("sctp_dtls", "SCTP DTLS Chunk")
proto.prefs.keylog = Pref.string("Key log file", os.getenv("MANYPATH_KEYLOG") or "", "What MANYPATH_KEYLOG has named")
local f = {
    restart = ProtoField.bool("sctp_dtls.restart", "Restart"),
    epoch = ProtoField.uint8("sctp_dtls.epoch_bits", "Lower two bits of the epoch"),
    no_checksum = ProtoField.none("sctp_dtls.no_checksum", "No checksum: the tag of the record stands in for it (RFC 9653)"),
    record = ProtoField.bytes("sctp_dtls.record", "Encrypted record"),
    full_epoch = ProtoField.uint64("sctp_dtls.epoch", "Epoch"),
    sequence = ProtoField.uint64("sctp_dtls.sequence", "Sequence number"),
    suite = ProtoField.string("sctp_dtls.suite", "Cipher suite"),
    chunks = ProtoField.bytes("sctp_dtls.chunks", "Chunks"),
    tie_breaker = ProtoField.uint32("sctp_dtls.tie_breaker", "Tie breaker", base.HEX),
    roles = ProtoField.uint8("sctp_dtls.roles", "Roles", base.DEC, { [1] = "client", [2] = "server", [3] = "client or server" }, 3),
    error_detection = ProtoField.none("sctp_dtls.error_detection", "Takes records without a checksum (RFC 9653)"),
    restarts = ProtoField.bool("sctp_dtls.restarts", "Restart supported", 8, nil, 4),
    method = ProtoField.uint8("sctp_dtls.method", "Key management method", base.DEC, { [0] = "pre-shared", [240] = "manypath" }),
    cause = ProtoField.uint16("sctp_dtls.cause", "Error cause", base.DEC, {
        [100] = "Missing DTLS Chunk Support", [101] = "No Common DTLS Key Management Method",
        [102] = "DTLS Key Management Tie Breaker Collision", [103] = "Incompatible DTLS Key Management Roles",
    }),
    index = ProtoField.uint8("sctp_dtls.index", "DTLS Connection Index", base.DEC, nil, 3),
    ticket = ProtoField.bytes("sctp_dtls.ticket", "Ticket"),
    lifetime = ProtoField.uint32("sctp_dtls.ticket_lifetime", "Lifetime of the ticket in seconds"),
    pvalid = ProtoField.none("sctp_dtls.pvalid", "Protection Valid"),
}
proto.fields = f
local locked = ProtoExpert.new("sctp_dtls.locked", "No key of the log opens this record", expert.group.DECRYPTION, expert.severity.NOTE)
proto.experts = { locked }

local chunk_type, parameter_type = Field.new("sctp.chunk_type"), Field.new("sctp.parameter_type")
local cause_code = Field.new("sctp.cause_code")

-- Keys of the log by the lower two bits of their epoch; which key opened a record with that tag last; what frames held.
local keys, used, opened = {}, {}, {}

local function unhex(text)
    return (text:gsub("%x%x", function(octet) return string.char(tonumber(octet, 16)) end))
end

local function read_log()
    keys, used, opened = { [0] = {}, {}, {}, {} }, {}, {}
    local file = proto.prefs.keylog ~= "" and io.open(proto.prefs.keylog)
    if not file then return end
    for line in file:lines() do
        local epoch, suite, key, iv, sn = line:match("^SCTP_DTLS_KEY %x+ (%d+) (%x+) (%x+) (%x+) (%x+)%s*$")
        local known = suite and SUITES[tonumber(suite, 16)]
        if known then
            local name, aead, mask = known[1], known[2], known[3]
            local list = keys[tonumber(epoch) % 4]
            list[#list + 1] = {
                epoch = tonumber(epoch), suite = name, iv = unhex(iv), aead = aead(unhex(key)), mask = mask(unhex(sn)),
            }
        end
    end
    file:close()
end

proto.init = read_log

local function open_record(number, tag, record)
    if opened[number] == nil then
        local bits = record:byte(1) % 4
        local name = tag .. bits
        local candidates = { used[name] }
        for _, key in ipairs(keys[bits]) do
            candidates[#candidates + 1] = key
        end
        opened[number] = false
        for _, key in ipairs(#record > HEADER_LEN + TAG_LEN and candidates or {}) do
            local content, sequence = open(key, record)
            if content then
                used[name] = key
                opened[number] = { key = key, content = content, sequence = sequence }
                break
            end
        end
    end
    return opened[number]
end

-- The chunk is the first one behind the common header: no other chunk is in its packet.
local function dissect_chunk(packet, at, pinfo, tree)
    local header = packet:range(at - 12, 12)
    local length = packet:range(at + 2, 2):uint()
    if length < 5 + HEADER_LEN or at + length > packet:len() then return end
    local record = packet:range(at + 5, length - 5)
    local item = tree:add(proto, packet:range(at, length))
    item:add(f.restart, packet:range(at + 1, 1), packet:range(at + 1, 1):bitfield(7) == 1)
    item:add(f.epoch, record:range(0, 1), record:range(0, 1):bitfield(6, 2))
    item:add(f.record, record)
    if header:range(8, 4):uint() == 0 then item:add(f.no_checksum, header:range(8, 4)) end
    local found = open_record(pinfo.number, header:range(4, 4):uint(), record:bytes():raw())
    if not found then
        pinfo.cols.info:append(" (DTLS chunk)")
        item:add_proto_expert_info(locked)
        return
    end
    item:add(f.full_epoch, record:range(0, 1), UInt64(found.key.epoch)):set_generated()
    item:add(f.sequence, record:range(1, 2), UInt64(found.sequence)):set_generated()
    item:add(f.suite, found.key.suite):set_generated()
    if #found.content == 0 then return end
    -- The chunks behind the common header are a packet as any other.
    local inner = header:bytes()
    inner:append(ByteArray.new(found.content, true))
    local plain = inner:tvb("Opened DTLS chunk")
    item:add(f.chunks, plain:range(12)):set_generated()
    Dissector.get("sctp"):call(plain, pinfo, tree)
    pinfo.cols.info:append(" (in DTLS chunk)")
end

local function dissect_parameter(packet, at, tree)
    local length = packet:range(at + 2, 2):uint()
    if length < 9 or at + length > packet:len() then return end
    local item = tree:add(proto, packet:range(at, length), "DTLS Key Management")
    item:add(f.tie_breaker, packet:range(at + 4, 4))
    item:add(f.restarts, packet:range(at + 8, 1))
    item:add(f.roles, packet:range(at + 8, 1))
    for method = at + 9, at + length - 1 do
        item:add(f.method, packet:range(method, 1))
    end
end

local function dissect_resumption(packet, at, tree)
    local length = packet:range(at + 2, 2):uint()
    if length < 4 or at + length > packet:len() then return end
    local item = tree:add(proto, packet:range(at, length), "Resumption")
    if length > 4 then item:add(f.ticket, packet:range(at + 4, length - 4)) end
end

local function dissect_error_detection(packet, at, tree)
    local item = packet:range(at + 2, 2):uint() == 8 and at + 8 <= packet:len() and packet:range(at, 8)
    if item and item:range(4, 4):string() == "DTLS" then
        tree:add(proto, item, "Zero Checksum Acceptable"):add(f.error_detection, item:range(4, 4))
    end
end

-- After SCTP's own dissector, in whatever SCTP was carried.
function proto.dissector(_, pinfo, tree)
    for _, cause in ipairs { cause_code() } do
        if cause.value >= 100 and cause.value <= 103 then
            tree:add(proto, cause.range, "Error cause of DTLS chunks"):add(f.cause, cause.range)
        end
    end
    for _, parameter in ipairs { parameter_type() } do
        if parameter.value == 0x8006 then dissect_parameter(parameter.source, parameter.offset, tree) end
        if parameter.value == 0x9092 then dissect_resumption(parameter.source, parameter.offset, tree) end
        if parameter.value == 0x8001 then dissect_error_detection(parameter.source, parameter.offset, tree) end
    end
    for _, chunk in ipairs { chunk_type() } do
        if chunk.value == 0x41 then dissect_chunk(chunk.source, chunk.offset, pinfo, tree) end
    end
end

register_postdissector(proto)

-- Messages of key management.
local messages = Proto("sctp_dtls_keys", "SCTP DTLS Key Management")

function messages.dissector(tvb, pinfo, tree)
    local item = tree:add(messages, tvb())
    if tvb():bytes():tohex() == "4F4B" then
        item:add(f.pvalid, tvb())
        return
    end
    if tvb(0, 1):uint() == 0x54 and tvb:len() > 5 then
        item:add(f.lifetime, tvb(1, 4))
        item:add(f.ticket, tvb(5))
        return
    end
    item:add(f.index, tvb(0, 1))
    if tvb:len() > 1 then Dissector.get("tls"):call(tvb(1):tvb(), pinfo, tree) end
end

DissectorTable.get("sctp.ppi"):add(4242, messages)
