-- Festina's protected packets in Wireshark and tshark 4.0 or later, as docs/secure-format.md describes them.
--
--   tshark -X lua_script:wireshark/festina.lua -o festina.keys:FILE -r capture.pcapng
--
-- FILE is a key log in the format of NSS, or a pcapng file with a Decryption Secrets Block, such as the capture itself. A Lua script
-- cannot ask Wireshark for the secrets of the open capture, nor for cryptography; both are below. Authentication tags are not verified:
-- a packet counts as decrypted if its reserved bits are zero and its contents are whole frames or chunks. A forged packet that
-- happens to look like that is shown as well.
--
-- The capture must hold the handshake, since only the client's hello connects packets with their secrets.

local CONNECTIONS_MAX = 16384
-- Initial packets that open no connection; after these, unknown connection IDs are not tried any more.
local FAILURES_MAX = 65536
local IDS_PER_CONNECTION_MAX = 30
-- Those of them that take the place of others at moves, in addition: two for each move.
local SPARES_PER_CONNECTION_MAX = 2048
local PACKETS_PER_DATAGRAM_MAX = 64
local ITEMS_SHOWN_MAX = 256
local PIECES_MAX = 32
local LEVEL_BYTES_MAX = {initial = 8192, handshake = 32768}
local KEY_FILE_BYTES_MAX = 64 * 1024 * 1024
local LINE_BYTES_MAX = 512
local SECRETS_MAX = 500000

local VERSION = "\x46\x53\x54\x01"
local PLAIN_SCTP = "\x53\x43\x54\x50"
local ID_BYTES = 8
local TAG_BYTES = 16
local LONG_HEADER_BYTES = 25
local SHORT_HEADER_BYTES = 9
local SCTP_PORT = 9899

---------------------------------------------------------------- bits

-- Lua 5.2 has bit32; Wireshark adds bit, whose results are signed, to later versions.
local bits = bit32 or bit
local function unsigned(operation)
    if bit32 then return operation end
    return function(...) return operation(...) % 4294967296 end
end
local band, bor, bxor = unsigned(bits.band), unsigned(bits.bor), unsigned(bits.bxor)
local bnot, lshift, rshift = unsigned(bits.bnot), unsigned(bits.lshift), unsigned(bits.rshift)
local ror = unsigned(bits.rrotate or bits.ror)
local byte, char, floor = string.byte, string.char, math.floor
local WORD = 4294967296

local function u16(text, at)
    local a, b = byte(text, at, at + 1)
    return b and a * 256 + b
end

local function u32(text, at)
    local a, b, c, d = byte(text, at, at + 3)
    return d and ((a * 256 + b) * 256 + c) * 256 + d
end

local function u32_little(text, at)
    local d, c, b, a = byte(text, at, at + 3)
    return a and ((a * 256 + b) * 256 + c) * 256 + d
end

local function bytes_of(word)
    return char(rshift(word, 24), band(rshift(word, 16), 255), band(rshift(word, 8), 255), band(word, 255))
end

local function swapped(word)
    return bor(lshift(word, 24), lshift(band(word, 0xff00), 8), band(rshift(word, 8), 0xff00), rshift(word, 24))
end

local function from_hex(text)
    return (text:gsub("%x%x", function(digits) return char(tonumber(digits, 16)) end))
end

---------------------------------------------------------------- SHA-2, HMAC and HKDF

-- High and low halves, FIPS 180-4 §4.2.3. SHA-256 uses the high ones of the first 64.
local SHA_K = {
    0x428a2f98, 0xd728ae22, 0x71374491, 0x23ef65cd, 0xb5c0fbcf, 0xec4d3b2f, 0xe9b5dba5, 0x8189dbbc, 0x3956c25b, 0xf348b538,
    0x59f111f1, 0xb605d019, 0x923f82a4, 0xaf194f9b, 0xab1c5ed5, 0xda6d8118, 0xd807aa98, 0xa3030242, 0x12835b01, 0x45706fbe,
    0x243185be, 0x4ee4b28c, 0x550c7dc3, 0xd5ffb4e2, 0x72be5d74, 0xf27b896f, 0x80deb1fe, 0x3b1696b1, 0x9bdc06a7, 0x25c71235,
    0xc19bf174, 0xcf692694, 0xe49b69c1, 0x9ef14ad2, 0xefbe4786, 0x384f25e3, 0x0fc19dc6, 0x8b8cd5b5, 0x240ca1cc, 0x77ac9c65,
    0x2de92c6f, 0x592b0275, 0x4a7484aa, 0x6ea6e483, 0x5cb0a9dc, 0xbd41fbd4, 0x76f988da, 0x831153b5, 0x983e5152, 0xee66dfab,
    0xa831c66d, 0x2db43210, 0xb00327c8, 0x98fb213f, 0xbf597fc7, 0xbeef0ee4, 0xc6e00bf3, 0x3da88fc2, 0xd5a79147, 0x930aa725,
    0x06ca6351, 0xe003826f, 0x14292967, 0x0a0e6e70, 0x27b70a85, 0x46d22ffc, 0x2e1b2138, 0x5c26c926, 0x4d2c6dfc, 0x5ac42aed,
    0x53380d13, 0x9d95b3df, 0x650a7354, 0x8baf63de, 0x766a0abb, 0x3c77b2a8, 0x81c2c92e, 0x47edaee6, 0x92722c85, 0x1482353b,
    0xa2bfe8a1, 0x4cf10364, 0xa81a664b, 0xbc423001, 0xc24b8b70, 0xd0f89791, 0xc76c51a3, 0x0654be30, 0xd192e819, 0xd6ef5218,
    0xd6990624, 0x5565a910, 0xf40e3585, 0x5771202a, 0x106aa070, 0x32bbd1b8, 0x19a4c116, 0xb8d2d0c8, 0x1e376c08, 0x5141ab53,
    0x2748774c, 0xdf8eeb99, 0x34b0bcb5, 0xe19b48a8, 0x391c0cb3, 0xc5c95a63, 0x4ed8aa4a, 0xe3418acb, 0x5b9cca4f, 0x7763e373,
    0x682e6ff3, 0xd6b2b8a3, 0x748f82ee, 0x5defb2fc, 0x78a5636f, 0x43172f60, 0x84c87814, 0xa1f0ab72, 0x8cc70208, 0x1a6439ec,
    0x90befffa, 0x23631e28, 0xa4506ceb, 0xde82bde9, 0xbef9a3f7, 0xb2c67915, 0xc67178f2, 0xe372532b, 0xca273ece, 0xea26619c,
    0xd186b8c7, 0x21c0c207, 0xeada7dd6, 0xcde0eb1e, 0xf57d4f7f, 0xee6ed178, 0x06f067aa, 0x72176fba, 0x0a637dc5, 0xa2c898a6,
    0x113f9804, 0xbef90dae, 0x1b710b35, 0x131c471b, 0x28db77f5, 0x23047d84, 0x32caab7b, 0x40c72493, 0x3c9ebe0a, 0x15c9bebc,
    0x431d67c4, 0x9c100d4c, 0x4cc5d4be, 0xcb3e42b6, 0x597f299c, 0xfc657e2a, 0x5fcb6fab, 0x3ad6faec, 0x6c44198c, 0x4a475817,
}

local function padded(message, block_bytes)
    local length_bytes = block_bytes / 8
    local zeros = -(#message + 1 + length_bytes) % block_bytes
    return message .. "\x80" .. ("\0"):rep(zeros + length_bytes - 4) .. bytes_of(#message * 8)
end

-- FIPS 180-4 §6.2.2
local function sha256(message)
    local h = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    }
    local text, w = padded(message, 64), {}
    for block = 1, #text, 64 do
        for t = 1, 16 do w[t] = u32(text, block + 4 * t - 4) end
        for t = 17, 64 do
            local x, y = w[t - 15], w[t - 2]
            local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
            local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
            w[t] = (w[t - 16] + s0 + w[t - 7] + s1) % WORD
        end
        local a, b, c, d, e, f, g, i = h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8]
        for t = 1, 64 do
            local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
            local t1 = i + s1 + bxor(band(e, f), band(bnot(e), g)) + SHA_K[2 * t - 1] + w[t]
            local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
            local t2 = s0 + bxor(band(a, b), band(a, c), band(b, c))
            i, g, f, e, d, c, b, a = g, f, e, (d + t1) % WORD, c, b, a, (t1 + t2) % WORD
        end
        for index, value in ipairs({a, b, c, d, e, f, g, i}) do h[index] = (h[index] + value) % WORD end
    end
    for index, word in ipairs(h) do h[index] = bytes_of(word) end
    return table.concat(h)
end

-- A right rotation of 64 bits in two halves, by less than 32 after `swap`.
local function ror64(high, low, count)
    if count >= 32 then high, low, count = low, high, count - 32 end
    return bor(rshift(high, count), lshift(low, 32 - count)), bor(rshift(low, count), lshift(high, 32 - count))
end

local function shr64(high, low, count)
    return rshift(high, count), bor(rshift(low, count), lshift(high, 32 - count))
end

local function sum64(...)
    local numbers, high, low = {...}, 0, 0
    for at = 1, #numbers, 2 do
        high, low = high + numbers[at], low + numbers[at + 1]
    end
    return (high + floor(low / WORD)) % WORD, low % WORD
end

local function sigma(high, low, first, second, third, shifts)
    local h1, l1 = ror64(high, low, first)
    local h2, l2 = ror64(high, low, second)
    local h3, l3 = (shifts and shr64 or ror64)(high, low, third)
    return bxor(h1, h2, h3), bxor(l1, l2, l3)
end

-- FIPS 180-4 §6.5
local function sha384(message)
    local h = {
        0xcbbb9d5d, 0xc1059ed8, 0x629a292a, 0x367cd507, 0x9159015a, 0x3070dd17, 0x152fecd8, 0xf70e5939,
        0x67332667, 0xffc00b31, 0x8eb44a87, 0x68581511, 0xdb0c2e0d, 0x64f98fa7, 0x47b5481d, 0xbefa4fa4,
    }
    local text, w = padded(message, 128), {}
    for block = 1, #text, 128 do
        for t = 1, 32 do w[t] = u32(text, block + 4 * t - 4) end
        for t = 33, 159, 2 do
            local h0, l0 = sigma(w[t - 30], w[t - 29], 1, 8, 7, true)
            local h1, l1 = sigma(w[t - 4], w[t - 3], 19, 61, 6, true)
            w[t], w[t + 1] = sum64(w[t - 32], w[t - 31], h0, l0, w[t - 14], w[t - 13], h1, l1)
        end
        local v = {}
        for index = 1, 16 do v[index] = h[index] end
        for t = 1, 159, 2 do
            local e, el, f, fl, g, gl = v[9], v[10], v[11], v[12], v[13], v[14]
            local h1, l1 = sigma(e, el, 14, 18, 41)
            local choice, choice_low = bxor(band(e, f), band(bnot(e), g)), bxor(band(el, fl), band(bnot(el), gl))
            local t1, t1_low = sum64(v[15], v[16], h1, l1, choice, choice_low, SHA_K[t], SHA_K[t + 1], w[t], w[t + 1])
            local a, al, b, bl, c, cl = v[1], v[2], v[3], v[4], v[5], v[6]
            local h0, l0 = sigma(a, al, 28, 34, 39)
            local majority = bxor(band(a, b), band(a, c), band(b, c))
            local majority_low = bxor(band(al, bl), band(al, cl), band(bl, cl))
            for index = 16, 3, -1 do v[index] = v[index - 2] end
            v[9], v[10] = sum64(v[9], v[10], t1, t1_low)
            v[1], v[2] = sum64(t1, t1_low, h0, l0, majority, majority_low)
        end
        for index = 1, 15, 2 do h[index], h[index + 1] = sum64(h[index], h[index + 1], v[index], v[index + 1]) end
    end
    for index, word in ipairs(h) do h[index] = bytes_of(word) end
    return table.concat(h, "", 1, 12)
end

local SHA256 = {sum = sha256, block_bytes = 64, bytes = 32}
local SHA384 = {sum = sha384, block_bytes = 128, bytes = 48}

-- RFC 2104
local function hmac(hash, key, message)
    if #key > hash.block_bytes then key = hash.sum(key) end
    key = key .. ("\0"):rep(hash.block_bytes - #key)
    local masked = function(mask) return (key:gsub(".", function(c) return char(bxor(byte(c), mask)) end)) end
    return hash.sum(masked(0x5c) .. hash.sum(masked(0x36) .. message))
end

-- HKDF-Expand-Label without context (RFC 8446 §7.1), for at most one block.
local function expand(hash, secret, label, length)
    label = "tls13 " .. label
    local info = char(floor(length / 256), length % 256, #label) .. label .. "\0"
    return hmac(hash, secret, info .. "\1"):sub(1, length)
end

---------------------------------------------------------------- ciphers

local SBOX, AES_T = {}, {{}, {}, {}, {}}

local function double(value)
    return bxor(lshift(value, 1), value >= 128 and 0x11b or 0)
end

do -- FIPS 197 §5.1.1: p runs through all values with its inverse q.
    local p, q = 1, 1
    repeat
        p = bxor(p, double(p))
        q = bxor(q, lshift(q, 1))
        q = bxor(q, lshift(q, 2))
        q = band(bxor(q, lshift(q, 4)), 255)
        if q >= 128 then q = bxor(q, 9) end
        local doubled = q * 257
        local mixed = bxor(q, rshift(doubled, 7), rshift(doubled, 6), rshift(doubled, 5), rshift(doubled, 4))
        SBOX[p] = bxor(band(mixed, 255), 0x63)
    until p == 1
    SBOX[0] = 0x63
    for x = 0, 255 do
        local s = SBOX[x]
        local word = ((double(s) * 256 + s) * 256 + s) * 256 + bxor(double(s), s)
        for index = 1, 4 do AES_T[index][x] = ror(word, 8 * index - 8) end
    end
end

-- FIPS 197 §5.2
local function aes_schedule(key)
    local w, key_words, constant = {}, #key / 4, 1
    local substituted = function(x)
        return ((SBOX[rshift(x, 24)] * 256 + SBOX[band(rshift(x, 16), 255)]) * 256 + SBOX[band(rshift(x, 8), 255)]) * 256
            + SBOX[band(x, 255)]
    end
    for index = 0, key_words - 1 do w[index] = u32(key, 4 * index + 1) end
    for index = key_words, 4 * (key_words + 7) - 1 do
        local word = w[index - 1]
        if index % key_words == 0 then
            word = bxor(substituted(ror(word, 24)), constant * 0x1000000)
            constant = double(constant)
        elseif key_words == 8 and index % 8 == 4 then
            word = substituted(word)
        end
        w[index] = bxor(w[index - key_words], word)
    end
    w.rounds = key_words + 6
    return w
end

local T0, T1, T2, T3 = AES_T[1], AES_T[2], AES_T[3], AES_T[4]

local function aes_column(a, b, c, d, key)
    return bxor(T0[rshift(a, 24)], T1[band(rshift(b, 16), 255)], T2[band(rshift(c, 8), 255)], T3[band(d, 255)], key)
end

local function aes_last(a, b, c, d, key)
    local word = ((SBOX[rshift(a, 24)] * 256 + SBOX[band(rshift(b, 16), 255)]) * 256 + SBOX[band(rshift(c, 8), 255)]) * 256
        + SBOX[band(d, 255)]
    return bxor(word, key)
end

local function aes_block(w, a, b, c, d)
    a, b, c, d = bxor(a, w[0]), bxor(b, w[1]), bxor(c, w[2]), bxor(d, w[3])
    for k = 4, 4 * w.rounds - 4, 4 do
        a, b, c, d = aes_column(a, b, c, d, w[k]), aes_column(b, c, d, a, w[k + 1]), aes_column(c, d, a, b, w[k + 2]),
            aes_column(d, a, b, c, w[k + 3])
    end
    local k = 4 * w.rounds
    return aes_last(a, b, c, d, w[k]), aes_last(b, c, d, a, w[k + 1]), aes_last(c, d, a, b, w[k + 2]),
        aes_last(d, a, b, c, w[k + 3])
end

-- RFC 8439 §2.3: the key and the counter with the nonce, in words of little order. Returns 16 words.
local function chacha_block(key, tail)
    local start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
    for index = 1, 8 do start[index + 4] = key[index] end
    for index = 1, 4 do start[index + 12] = tail[index] end
    local s = {}
    for index = 1, 16 do s[index] = start[index] end
    local function quarter(a, b, c, d)
        s[a] = (s[a] + s[b]) % WORD
        s[d] = ror(bxor(s[d], s[a]), 16)
        s[c] = (s[c] + s[d]) % WORD
        s[b] = ror(bxor(s[b], s[c]), 20)
        s[a] = (s[a] + s[b]) % WORD
        s[d] = ror(bxor(s[d], s[a]), 24)
        s[c] = (s[c] + s[d]) % WORD
        s[b] = ror(bxor(s[b], s[c]), 25)
    end
    for _ = 1, 10 do
        quarter(1, 5, 9, 13)
        quarter(2, 6, 10, 14)
        quarter(3, 7, 11, 15)
        quarter(4, 8, 12, 16)
        quarter(1, 6, 11, 16)
        quarter(2, 7, 12, 13)
        quarter(3, 8, 9, 14)
        quarter(4, 5, 10, 15)
    end
    for index = 1, 16 do s[index] = (s[index] + start[index]) % WORD end
    return s
end

local function little_words(text, count)
    local words = {}
    for index = 1, count do words[index] = u32_little(text, 4 * index - 3) end
    return words
end

-- The 16 bytes of `data` at `at` and these words, combined by exclusive or.
local function mixed(data, at, w1, w2, w3, w4)
    local b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16 = byte(data, at, at + 15)
    return char(
        bxor(b1, rshift(w1, 24)), bxor(b2, band(rshift(w1, 16), 255)), bxor(b3, band(rshift(w1, 8), 255)), bxor(b4, band(w1, 255)),
        bxor(b5, rshift(w2, 24)), bxor(b6, band(rshift(w2, 16), 255)), bxor(b7, band(rshift(w2, 8), 255)), bxor(b8, band(w2, 255)),
        bxor(b9, rshift(w3, 24)), bxor(b10, band(rshift(w3, 16), 255)), bxor(b11, band(rshift(w3, 8), 255)), bxor(b12, band(w3, 255)),
        bxor(b13, rshift(w4, 24)), bxor(b14, band(rshift(w4, 16), 255)), bxor(b15, band(rshift(w4, 8), 255)), bxor(b16, band(w4, 255))
    )
end

-- Each cipher makes keys usable, gives the mask of a sample (RFC 9001 §5.4.3, §5.4.4) and encrypts or decrypts `data`, whose length is a
-- multiple of 16.
local function aes(hash, key_bytes)
    return {
        hash = hash, key_bytes = key_bytes, prepare = aes_schedule,
        mask = function(key, sample)
            local first, second = aes_block(key, u32(sample, 1), u32(sample, 5), u32(sample, 9), u32(sample, 13))
            return bytes_of(first) .. bytes_of(second)
        end,
        crypt = function(key, n1, n2, n3, data)
            local out = {}
            for at = 1, #data, 16 do
                -- Counter 1 belongs to the tag.
                out[#out + 1] = mixed(data, at, aes_block(key, n1, n2, n3, (at + 15) / 16 + 1))
            end
            return table.concat(out)
        end,
    }
end

local CHACHA = {
    hash = SHA256, key_bytes = 32, prepare = function(key) return little_words(key, 8) end,
    mask = function(key, sample)
        local s = chacha_block(key, little_words(sample, 4))
        return bytes_of(swapped(s[1])) .. bytes_of(swapped(s[2]))
    end,
    crypt = function(key, n1, n2, n3, data)
        local out, nonce = {}, {swapped(n1), swapped(n2), swapped(n3)}
        for at = 1, #data, 64 do
            -- Counter 0 belongs to the tag.
            local s = chacha_block(key, {(at + 63) / 64, nonce[1], nonce[2], nonce[3]})
            for part = 0, math.min(3, (#data - at - 15) / 16) do
                local w = 4 * part
                out[#out + 1] = mixed(data, at + 16 * part, swapped(s[w + 1]), swapped(s[w + 2]), swapped(s[w + 3]), swapped(s[w + 4]))
            end
        end
        return table.concat(out)
    end,
}

local AES_128, AES_256 = aes(SHA256, 16), aes(SHA384, 32)
-- By the numbers in a ServerHello (RFC 8446 §B.4).
local SUITES = {[0x1301] = AES_128, [0x1302] = AES_256, [0x1303] = CHACHA}

local function ciphers_for(secret, suite)
    if suite then return #secret == suite.hash.bytes and {suite} or {} end
    if #secret == SHA384.bytes then return {AES_256} end
    return #secret == SHA256.bytes and {AES_128, CHACHA} or {}
end

---------------------------------------------------------------- key logs

local LABELS = {
    CLIENT_EARLY_TRAFFIC_SECRET = "early",
    CLIENT_HANDSHAKE_TRAFFIC_SECRET = "client_handshake",
    SERVER_HANDSHAKE_TRAFFIC_SECRET = "server_handshake",
    CLIENT_TRAFFIC_SECRET_0 = "client_traffic",
    SERVER_TRAFFIC_SECRET_0 = "server_traffic",
}

-- By client random and name. `size` is that of the file that was read, `looked_at` the second in which it was looked at.
local key_log

local function forget_keys()
    key_log = {secrets = {}, count = 0, size = -1, path = "", looked_at = 0}
end
forget_keys()

local function read_lines(text)
    for line in text:gmatch("[^\r\n]+") do
        local label, random, secret
        if #line <= LINE_BYTES_MAX then label, random, secret = line:match("^([%w_]+) (%x+) (%x+)") end
        local name = LABELS[label or ""]
        if name and #random == 64 and (#secret == 64 or #secret == 96) and key_log.count < SECRETS_MAX then
            random = from_hex(random)
            local known = key_log.secrets[random]
            if not known then
                known = {}
                key_log.secrets[random] = known
            end
            known[name] = from_hex(secret)
            key_log.count = key_log.count + 1
        end
    end
end

-- The Decryption Secrets Blocks of a pcapng file (draft-ietf-opsawg-pcapng §4.7) that hold TLS key logs. Other contents are skipped.
local function read_pcapng(file)
    local word = u32_little
    local start = file:seek("set", 0)
    while start do
        local head = file:read(16)
        if not head or #head < 12 then return end
        local is_section = head:sub(1, 4) == "\x0a\x0d\x0d\x0a"
        if is_section then word = head:sub(9, 12) == "\x1a\x2b\x3c\x4d" and u32 or u32_little end
        local length = word(head, 5)
        if length < 12 or length % 4 ~= 0 then return end
        if not is_section and word(head, 1) == 10 and #head == 16 and word(head, 9) == 0x544c534b then
            local text_bytes = word(head, 13)
            -- 20 bytes around it. Blocks must not overlap, since that would read the same bytes many times.
            if text_bytes > math.min(length - 20, KEY_FILE_BYTES_MAX) then return end
            read_lines(file:read(text_bytes) or "")
        end
        start = file:seek("set", start + length)
    end
end

-- Reads the file again if it has grown, as one to which a program is still writing, at most once a second.
local function refresh_keys(path)
    local now = os.time()
    if path == "" or now == key_log.looked_at then return end
    key_log.looked_at = now
    local file = io.open(path, "rb")
    if not file then return end
    local size = file:seek("end")
    if size and (size ~= key_log.size or path ~= key_log.path) then
        key_log = {secrets = {}, count = 0, size = size, path = path, looked_at = now}
        file:seek("set", 0)
        local magic = file:read(4)
        if magic == "\x0a\x0d\x0d\x0a" then
            read_pcapng(file)
        elseif magic then
            read_lines(magic .. (file:read(KEY_FILE_BYTES_MAX) or ""))
        end
    end
    file:close()
end

---------------------------------------------------------------- packet protection

local INITIAL_SALT = from_hex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")

-- Keys of one direction. Those of packets change with each generation, that of headers does not.
local function keys_of(cipher, secret)
    local header = cipher.prepare(expand(cipher.hash, secret, "quic hp", cipher.key_bytes))
    return {cipher = cipher, header = header, secrets = {[0] = secret}, packet = {}, next_number = 0, lowest = 0, generation = 0}
end

-- The packet key and the initialization vector of a generation, at most one behind those in use (RFC 9001 §6.1).
local function packet_key(keys, generation)
    local found = keys.packet[generation]
    if not found then
        local cipher, secret = keys.cipher, keys.secrets[generation]
        if not secret then
            secret = expand(cipher.hash, keys.secrets[generation - 1], "quic ku", cipher.hash.bytes)
            keys.secrets[generation] = secret
        end
        local iv = expand(cipher.hash, secret, "quic iv", 12)
        found = {
            key = cipher.prepare(expand(cipher.hash, secret, "quic key", cipher.key_bytes)),
            n1 = u32(iv, 1), n2 = u32(iv, 5), n3 = u32(iv, 9),
        }
        -- Three are in use at most.
        if generation % 4 == 3 then keys.packet = {[generation - 1] = keys.packet[generation - 1]} end
        keys.packet[generation] = found
    end
    return found
end

-- Removes header protection (RFC 9001 §5.4.1) from the packet in `raw` whose number stands at `number_at`. Returns the first byte, the
-- last bytes of the number and how many they are; nil if the sample is missing.
local function unmask(keys, raw, number_at)
    local sample = raw:sub(number_at + 4, number_at + 19)
    if #sample < 16 then return nil end
    local mask = keys.cipher.mask(keys.header, sample)
    local first = byte(raw, 1)
    first = bxor(first, band(byte(mask, 1), first >= 128 and 0x0f or 0x1f))
    local number_bytes, low = band(first, 3) + 1, 0
    for index = 0, number_bytes - 1 do
        low = low * 256 + bxor(byte(raw, number_at + index), byte(mask, index + 2))
    end
    return first, low, number_bytes
end

-- RFC 9000 §A.3
local function whole_number(keys, low, number_bytes)
    local window = 256 ^ number_bytes
    local candidate = keys.next_number - keys.next_number % window + low
    if candidate + window / 2 <= keys.next_number then return candidate + window end
    if candidate > keys.next_number + window / 2 and candidate >= window then return candidate - window end
    return candidate
end

local function decrypt(keys, generation, number, data)
    local key = packet_key(keys, generation)
    local n2, n3 = bxor(key.n2, floor(number / WORD)), bxor(key.n3, number % WORD)
    local filled = data .. ("\0"):rep(-#data % 16)
    return keys.cipher.crypt(key.key, key.n1, n2, n3, filled):sub(1, #data)
end

---------------------------------------------------------------- frames and chunks

local FRAME_NAMES = {
    [0] = "padding", [1] = "fragment", [2] = "retry", [3] = "token", [4] = "close", [5] = "message", [6] = "early received",
    [7] = "addresses", [8] = "spare",
}
-- Bytes before the contents, and where in them the length stands.
local FRAME_HEADERS = {[1] = {5, 3, u16}, [2] = {2, 1, byte}, [3] = {2, 1, byte}, [4] = {3}, [5] = {9, 7, u16}, [6] = {2}, [8] = {9}}
-- Connection IDs, and an INIT chunk behind its length.
FRAME_HEADERS[7] = {2, 1, function(payload, at)
    local ids_bytes = 8 * (byte(payload, at) or 0)
    return ids_bytes + 2 + (u16(payload, at + 1 + ids_bytes) or 0)
end}

-- Splits a payload, which may have been captured only in part, into {type, offset, header bytes, content bytes}. The last content may be
-- cut. Returns nil if the frames do not fit into `whole_bytes`.
local function split_frames(payload, whole_bytes)
    local frames, at = {}, 1
    while at <= #payload do
        local kind = byte(payload, at)
        if kind == 0 then
            local behind = payload:find("[^\0]", at) or #payload + 1
            frames[#frames + 1] = {0, at, 1, behind - at - 1}
            at = behind
        else
            local header = FRAME_HEADERS[kind]
            if not header then return nil end
            local behind = at + header[1] + (header[2] and header[3](payload, at + header[2]) or 0)
            if behind > whole_bytes + 1 then return nil end
            local content = math.min(behind, #payload + 1) - at - header[1]
            if content < 0 then break end
            frames[#frames + 1] = {kind, at, header[1], content}
            at = behind
        end
    end
    return frames
end

local SPARE = 0xba
local CHUNK_NAMES = {
    [0xb8] = "list of addresses", [0xb9] = "list of addresses received",
    [SPARE] = "spare connection ID",
    [0xbc] = "session ticket", [0xbd] = "session ticket received", [0xbe] = "challenge of an address",
    [0xbf] = "answer to a challenge",
}
-- Sums of chunks, which stand anywhere in a packet.
local REPAIR = 0xb6
CHUNK_NAMES[REPAIR] = "weighted sum of chunks, or report of computed ones"

-- As split_frames, into {type, offset, length, length with padding}, both as far as they were captured.
local function split_chunks(payload, whole_bytes)
    local chunks, at = {}, 1
    while at <= #payload do
        local length = u16(payload, at + 2)
        if (length or 4) < 4 or at + (length or 4) > whole_bytes + 1 then return nil end
        if not length then break end
        local padded_bytes = math.min(length + -length % 4, #payload + 1 - at)
        chunks[#chunks + 1] = {byte(payload, at), at, math.min(length, padded_bytes), padded_bytes}
        at = at + padded_bytes
    end
    return #chunks > 0 and chunks or nil
end

---------------------------------------------------------------- connections

-- Connections by each of their IDs, with the side that receives packets to it; and the results of each frame's first dissection.
local ids, frames_seen, connections, failures

local function forget_all()
    ids, frames_seen, connections, failures = {}, {}, 0, 0
end
forget_all()

local OTHER = {client = "server", server = "client"}

local function new_connection(original)
    local secret = hmac(SHA256, INITIAL_SALT, original)
    return {
        ids = 0, spares = 0, original = original, initial_secret = secret, keys = {}, tried = {}, streams = {}, tags = {},
        ports = {client = 0, server = 0},
    }
end

local function learn_id(connection, id, receiver)
    if not ids[id] and connection.ids < IDS_PER_CONNECTION_MAX then
        ids[id] = {connection = connection, receiver = receiver}
        connection.ids = connection.ids + 1
    end
end

-- Learns a connection ID that takes the place of the receiver's at its or its peer's next move.
local function learn_spare(connection, id, receiver)
    if #id == 8 and not ids[id] and connection.spares < SPARES_PER_CONNECTION_MAX then
        ids[id] = {connection = connection, receiver = receiver}
        connection.spares = connection.spares + 1
    end
end

-- Learns the connection IDs of a side for packets to its further addresses.
local function learn_ids(connection, list, receiver)
    for at = 1, math.min(#list, 7 * 8) - 7, 8 do learn_id(connection, list:sub(at, at + 7), receiver) end
end

local function initial_keys(connection, sender)
    local name = sender .. "_initial"
    local keys = connection.keys[name]
    if not keys then
        keys = keys_of(AES_128, expand(SHA256, connection.initial_secret, sender == "client" and "client in" or "server in", 32))
        connection.keys[name] = keys
    end
    return keys
end

-- The candidates for the keys of a level and direction: those in use, or one for each cipher that the secret allows.
local function candidates(connection, name, path)
    local known = connection.keys[name]
    if known then return {known} end
    if not connection.random then return {} end
    local secrets = key_log.secrets[connection.random]
    if not (secrets and secrets[name]) then
        refresh_keys(path)
        secrets = key_log.secrets[connection.random]
    end
    local secret, tried = secrets and secrets[name], connection.tried[name]
    if not secret then return {} end
    -- Early packets were sent before the server chose.
    local suite = name ~= "early" and connection.suite or nil
    if not (tried and tried.secret == secret and tried.suite == suite) then
        tried = {secret = secret, suite = suite}
        for _, cipher in ipairs(ciphers_for(secret, suite)) do tried[#tried + 1] = keys_of(cipher, secret) end
        connection.tried[name] = tried
    end
    return tried
end

-- The generations that a packet with this phase bit may have, the likeliest first.
local function generations(keys, phase, number)
    local current = keys.generation
    if current % 2 == phase then return {current} end
    if current == 0 then return {1} end
    if number < keys.lowest then return {current - 1, current + 1} end
    return {current + 1, current - 1}
end

-- Reads variable-length integers (RFC 9000 §16).
local function varint(text, at)
    local first = byte(text, at)
    if not first then return nil end
    local bytes = 2 ^ rshift(first, 6)
    local value = band(first, 0x3f)
    for index = 1, bytes - 1 do
        local more = byte(text, at + index)
        if not more then return nil end
        value = value * 256 + more
    end
    return value, at + bytes
end

-- Splits a blob of parameters into {identifier, content}, as far as it is sound.
local function split_parameters(blob)
    local parameters, at = {}, 1
    while at <= #blob and #parameters < 32 do
        local identifier, length
        identifier, at = varint(blob, at)
        if not identifier then break end
        length, at = varint(blob, at)
        if not length or at + length > #blob + 1 then break end
        parameters[#parameters + 1] = {identifier, blob:sub(at, at + length - 1)}
        at = at + length
    end
    return parameters
end

-- The parameters in the extensions of a handshake message (RFC 9001 §8.2), whose length stands at `at`.
local function parameters_at(message, at)
    local total = at and u16(message, at)
    if not total then return nil end
    at = at + 2
    while at + 4 <= #message + 1 do
        local kind, length = u16(message, at), u16(message, at + 2)
        if at + 4 + length > #message + 1 then return nil end
        if kind == 0x39 then return split_parameters(message:sub(at + 4, at + 3 + length)) end
        at = at + 4 + length
    end
    return nil
end

-- Puts a fragment into a stream of handshake bytes. Bytes that were received first keep their values.
local function add_fragment(connection, sender, level, offset, bytes)
    local name = sender .. "_" .. level
    local stream = connection.streams[name]
    if not stream then
        stream = {text = "", pieces = {}, count = 0}
        connection.streams[name] = stream
    end
    if offset + #bytes > LEVEL_BYTES_MAX[level] then return stream.text end
    if offset > #stream.text then
        if not stream.pieces[offset] and stream.count < PIECES_MAX then
            stream.pieces[offset], stream.count = bytes, stream.count + 1
        end
        return stream.text
    end
    local parts, found = stream.text .. bytes:sub(#stream.text - offset + 1), true
    while found do
        found = false
        for at, piece in pairs(stream.pieces) do
            if at <= #parts then
                parts = parts .. piece:sub(#parts - at + 1)
                stream.pieces[at], stream.count, found = nil, stream.count - 1, true
                break
            end
        end
    end
    stream.text = parts
    return stream.text
end

-- Learns ports and verification tags.
local function take_parameters(connection, sender, parameters)
    for _, parameter in ipairs(parameters) do
        local identifier, content = parameter[1], parameter[2]
        if identifier == 0x3f01 and #content >= 20 then
            connection.tags[sender] = content:sub(5, 8)
        elseif identifier == 0x3f02 and #content == 4 and sender == "client" then
            connection.ports = {client = u16(content, 1), server = u16(content, 3)}
        elseif identifier == 0x3f04 and sender == "server" then
            learn_ids(connection, content, sender)
        elseif identifier == 0x3f05 and sender == "server" then
            learn_spare(connection, content:sub(1, 8), sender)
        end
    end
end

-- Learns from handshake bytes. Returns the parameters if these bytes complete them.
local function learn(connection, sender, level, offset, bytes)
    local before = connection.streams[sender .. "_" .. level]
    local known = before and before.is_read
    local text = add_fragment(connection, sender, level, offset, bytes)
    local stream = connection.streams[sender .. "_" .. level]
    local kind, message_bytes = byte(text, 1), #text >= 4 and u32("\0" .. text:sub(2, 4), 1)
    if known or not message_bytes then return nil end
    if level == "initial" and #text >= 38 then
        if sender == "client" and kind == 1 then connection.random = connection.random or text:sub(7, 38) end
        local session_bytes = byte(text, 39)
        if sender == "server" and kind == 2 and session_bytes then
            connection.suite = connection.suite or SUITES[u16(text, 40 + session_bytes) or 0]
        end
    end
    if #text < 4 + message_bytes then return nil end
    stream.is_read = true
    local message, parameters = text:sub(1, 4 + message_bytes), nil
    if level == "initial" and sender == "client" and kind == 1 then
        local session_bytes = byte(message, 39)
        local suites_bytes = session_bytes and u16(message, 40 + session_bytes)
        local compression_at = suites_bytes and 42 + session_bytes + suites_bytes
        local compression_bytes = compression_at and byte(message, compression_at)
        parameters = compression_bytes and parameters_at(message, compression_at + 1 + compression_bytes)
    elseif level == "handshake" and sender == "server" and kind == 8 then
        parameters = parameters_at(message, 5)
    end
    if parameters then take_parameters(connection, sender, parameters) end
    return parameters
end

---------------------------------------------------------------- fields

local festina = Proto("festina", "Festina protected packets")
festina.prefs.keys = Pref.string("Key log", "", "A key log in the format of NSS, or a pcapng file with a Decryption Secrets Block")

local TYPES = {initial = "Initial", early = "Early", handshake = "Handshake", short = "short header"}
local fields = {
    first = ProtoField.uint8("festina.first_byte", "First byte, protected", base.HEX),
    kind = ProtoField.string("festina.type", "Packet"),
    version = ProtoField.uint32("festina.version", "Version", base.HEX),
    known_version = ProtoField.uint32("festina.known_version", "Known version", base.HEX),
    receiver = ProtoField.bytes("festina.receiver_id", "Connection ID of the receiver"),
    sender = ProtoField.bytes("festina.sender_id", "Connection ID of the sender"),
    length = ProtoField.uint16("festina.length", "Length of the packet number, the frames and the tag"),
    reserved = ProtoField.uint8("festina.reserved", "Reserved (R)"),
    phase = ProtoField.uint8("festina.key_phase", "Key phase (K)"),
    number_bytes = ProtoField.uint8("festina.number_length", "Length of the packet number (L)"),
    number = ProtoField.uint64("festina.number", "Packet number"),
    generation = ProtoField.uint32("festina.key_updates", "Key updates before this packet"),
    protected = ProtoField.bytes("festina.protected", "Protected bytes"),
    tag = ProtoField.bytes("festina.tag", "Tag, not verified"),
    frame = ProtoField.uint8("festina.frame", "Frame", base.DEC, FRAME_NAMES),
    fragment_offset = ProtoField.uint16("festina.fragment.offset", "Offset of the first byte"),
    fragment_bytes = ProtoField.bytes("festina.fragment.bytes", "Handshake bytes of TLS"),
    token = ProtoField.bytes("festina.token", "Token"),
    close = ProtoField.uint16("festina.close", "Close code"),
    stream = ProtoField.uint16("festina.message.stream", "Stream"),
    ppid = ProtoField.uint32("festina.message.ppid", "Payload protocol identifier"),
    payload = ProtoField.bytes("festina.message.payload", "Payload"),
    addresses = ProtoField.bytes("festina.addresses", "Connection IDs, and the INIT with the addresses"),
    spare = ProtoField.bytes("festina.spare", "Connection ID for the next move"),
    early_received = ProtoField.uint8("festina.early_received", "Number of messages"),
    parameter = ProtoField.string("festina.parameter", "Parameter"),
    client_port = ProtoField.uint16("festina.client_port", "SCTP port of the client"),
    server_port = ProtoField.uint16("festina.server_port", "SCTP port of the server"),
    chunk = ProtoField.uint8("festina.chunk", "Chunk", base.HEX, CHUNK_NAMES),
    chunk_value = ProtoField.bytes("festina.chunk.value", "Value"),
    repair_row = ProtoField.uint8("festina.repair.row", "Row of weights", base.DEC, nil, 7),
    repair_first = ProtoField.uint32("festina.repair.first", "TSN of the first chunk"),
    repair_mask = ProtoField.uint16("festina.repair.mask", "Mask: bit n stands for the n-th TSN from there", base.HEX),
    repair_sum = ProtoField.bytes("festina.repair.sum", "Sum"),
}
festina.fields = {}
for _, field in pairs(fields) do table.insert(festina.fields, field) end

local experts = {
    no_keys = ProtoExpert.new("festina.no_keys", "Not decrypted: no keys are known", expert.group.UNDECODED, expert.severity.NOTE),
    not_opened = ProtoExpert.new(
        "festina.not_decrypted", "Not decrypted: the keys do not fit, or the packet is damaged", expert.group.UNDECODED,
        expert.severity.WARN
    ),
    cut = ProtoExpert.new("festina.cut", "The capture has only a part of this packet", expert.group.UNDECODED, expert.severity.NOTE),
    malformed = ProtoExpert.new("festina.malformed", "The header is malformed", expert.group.MALFORMED, expert.severity.ERROR),
}
festina.experts = {experts.no_keys, experts.not_opened, experts.cut, experts.malformed}

---------------------------------------------------------------- SCTP

local CRC = {}
for index = 0, 255 do
    local value = index
    for _ = 1, 8 do value = bxor(rshift(value, 1), value % 2 == 1 and 0x82f63b78 or 0) end
    CRC[index] = value
end

-- CRC32c as RFC 9260 §A writes it.
local function checksum(packet)
    local value = 0xffffffff
    for at = 1, #packet do value = bxor(rshift(value, 8), CRC[band(bxor(value, byte(packet, at)), 255)]) end
    return bytes_of(swapped(bnot(value)))
end

local sctp = Dissector.get("sctp")

-- Hands chunks to Wireshark behind a common header (RFC 9260 §3.1) with the ports and tags of the handshake.
local function show_chunks(connection, sender, tag, chunks, pinfo, root)
    local ports = {connection.ports[sender], connection.ports[OTHER[sender]]}
    local head = bytes_of(ports[1] * 65536 + ports[2]) .. tag
    local packet = head .. checksum(head .. "\0\0\0\0" .. chunks) .. chunks
    local tvb = ByteArray.new(packet, true):tvb("SCTP packet")
    -- A chunk that Wireshark finds malformed is shown as such, and then raised as an error.
    pcall(sctp.call, sctp, tvb, pinfo, root)
end

---------------------------------------------------------------- dissection

-- The offset of the next packet for the same receiver: a datagram that was captured before the system segments it (UDP GSO) holds several.
local function next_short(raw, offset, id)
    local at = offset + SHORT_HEADER_BYTES + 1
    repeat
        at = raw:find(id, at + 1, true)
    until not at or band(byte(raw, at - 1), 0xe0) == 0x60
    return at and at - 2
end

-- Reads the header of the packet at `offset`. Returns nil if it is none of this format.
local function read_header(raw, offset, reported)
    local first = byte(raw, offset + 1)
    if not first then return nil end
    local header = {offset = offset}
    if band(first, 0xe0) == 0x60 then
        if #raw < offset + SHORT_HEADER_BYTES then return nil end
        header.level, header.number_at = "short", SHORT_HEADER_BYTES
        header.receiver_id = raw:sub(offset + 2, offset + 9)
        header.behind = next_short(raw, offset, header.receiver_id) or reported
        return header
    end
    header.level = ({[0xc0] = "initial", [0xd0] = "early", [0xe0] = "handshake"})[band(first, 0xf0)]
    if not header.level or #raw < offset + LONG_HEADER_BYTES or raw:sub(offset + 2, offset + 5) ~= VERSION then return nil end
    if byte(raw, offset + 6) ~= ID_BYTES or byte(raw, offset + 15) ~= ID_BYTES then return nil end
    header.number_at = LONG_HEADER_BYTES
    header.receiver_id, header.sender_id = raw:sub(offset + 7, offset + 14), raw:sub(offset + 16, offset + 23)
    header.length = u16(raw, offset + 24)
    header.behind = offset + LONG_HEADER_BYTES + header.length
    return header
end

-- Decrypts with one of the candidates. Returns {keys, generation, number}, and the payload and what it splits into.
local function open_with(found, header, packet)
    local split = header.level == "short" and split_chunks or split_frames
    for _, keys in ipairs(found) do
        local first, low, number_bytes = unmask(keys, packet, header.number_at + 1)
        if not first then return nil end
        local is_short = header.level == "short"
        if band(first, is_short and 0x18 or 0x0c) == 0 then
            local number = whole_number(keys, low, number_bytes)
            local payload_at = header.number_at + number_bytes
            local cipher_bytes = header.behind - header.offset - payload_at - TAG_BYTES
            local data = cipher_bytes > 0 and packet:sub(payload_at + 1, payload_at + cipher_bytes) or ""
            local tries = is_short and generations(keys, band(rshift(first, 2), 1), number) or {0}
            for _, generation in ipairs(data ~= "" and tries or {}) do
                local payload = decrypt(keys, generation, number, data)
                local parts = split(payload, cipher_bytes)
                if parts then
                    local opened = {
                        keys = keys, generation = generation, number = number, first = first, number_bytes = number_bytes,
                    }
                    return opened, payload, parts
                end
            end
        end
    end
    return nil
end

-- Notes that a packet was opened for the first time.
local function admit(opened)
    local keys, number = opened.keys, opened.number
    if number >= keys.next_number then keys.next_number = number + 1 end
    if opened.generation > keys.generation then
        keys.generation, keys.lowest = opened.generation, number
    elseif opened.generation == keys.generation and number < keys.lowest then
        keys.lowest = number
    end
end

-- The connection of a packet, its sender, and whether it was made for this packet.
local function connection_of(header)
    local known = ids[header.receiver_id]
    if known then return known.connection, OTHER[known.receiver], false end
    known = header.sender_id and ids[header.sender_id]
    if known and header.level ~= "early" then return known.connection, known.receiver, false end
    if header.level ~= "initial" or connections >= CONNECTIONS_MAX or failures >= FAILURES_MAX then return nil end
    return new_connection(header.receiver_id), "client", true
end

-- Opens a packet that is seen for the first time, and learns from it.
local function open_first(header, packet, path)
    local connection, sender, is_new = connection_of(header)
    if not connection then return {} end
    local entry, found, name = {connection = connection, sender = sender}, nil, nil
    if header.level == "initial" then
        name, found = sender .. "_initial", {initial_keys(connection, sender)}
    else
        name = header.level == "early" and "early" or sender .. (header.level == "short" and "_traffic" or "_handshake")
        found = candidates(connection, name, path)
    end
    entry.has_keys = #found > 0
    local opened, payload, parts = open_with(found, header, packet)
    if not opened then
        failures = failures + (is_new and 1 or 0)
        return entry
    end
    admit(opened)
    entry.opened = opened
    connection.keys[name], connection.tried[name] = opened.keys, nil
    if is_new then
        connections = connections + 1
        learn_id(connection, header.receiver_id, "server")
    end
    if header.sender_id then learn_id(connection, header.sender_id, sender) end
    if header.level == "initial" or header.level == "handshake" then
        for index = 1, math.min(#parts, ITEMS_SHOWN_MAX) do
            local kind, at, head, content = parts[index][1], parts[index][2], parts[index][3], parts[index][4]
            if kind == 1 then
                local bytes = payload:sub(at + head, at + head + content - 1)
                entry.parameters = learn(connection, sender, header.level, u16(payload, at + 1), bytes) or entry.parameters
            elseif kind == 7 and header.level == "handshake" and sender == "client" then
                learn_ids(connection, payload:sub(at + 2, at + 1 + 8 * byte(payload, at + 1)), sender)
            elseif kind == 8 and header.level == "handshake" and sender == "client" then
                learn_spare(connection, payload:sub(at + 1, at + 8), sender)
            end
        end
    elseif header.level == "short" then
        for index = 1, math.min(#parts, ITEMS_SHOWN_MAX) do
            local kind, at, length = parts[index][1], parts[index][2], parts[index][3]
            if kind == SPARE and length >= 16 then learn_spare(connection, payload:sub(at + 8, at + 15), sender) end
        end
    end
    return entry, payload, parts
end

local PARAMETER_NAMES = {
    [0x00] = "original destination", [0x0f] = "initial source", [0x3f01] = "INIT", [0x3f02] = "ports", [0x3f03] = "token",
    [0x3f04] = "connection IDs for further addresses", [0x3f05] = "spare connection ID",
}

local function show_parameters(entry, pinfo, tree, root)
    for _, parameter in ipairs(entry.parameters or {}) do
        local identifier, content = parameter[1], parameter[2]
        local name = PARAMETER_NAMES[identifier] or ("0x%x"):format(identifier)
        local digits = content:sub(1, 64):gsub(".", function(c) return ("%02x"):format(byte(c)) end)
        tree:add(fields.parameter, ("%s: %s%s"):format(name, digits, #content > 64 and "..." or "")):set_generated()
        if identifier == 0x3f02 and #content == 4 then
            tree:add(fields.client_port, u16(content, 1)):set_generated()
            tree:add(fields.server_port, u16(content, 3)):set_generated()
        elseif identifier == 0x3f01 and #content >= 20 then
            show_chunks(entry.connection, entry.sender, "\0\0\0\0", content, pinfo, root)
        end
    end
end

local function show_frames(payload, frames, tree, tvb)
    for index = 1, math.min(#frames, ITEMS_SHOWN_MAX) do
        local kind, start, head, content = frames[index][1], frames[index][2] - 1, frames[index][3], frames[index][4]
        local frame = tree:add(fields.frame, tvb(start, 1))
        frame:set_len(head + content)
        local contents = content > 0 and tvb(start + head, content)
        if kind == 1 then
            frame:add(fields.fragment_offset, tvb(start + 1, 2))
            if contents then frame:add(fields.fragment_bytes, contents) end
        elseif (kind == 2 or kind == 3) and contents then
            frame:add(fields.token, contents)
        elseif kind == 4 then
            frame:add(fields.close, tvb(start + 1, 2))
        elseif kind == 5 then
            frame:add(fields.stream, tvb(start + 1, 2))
            frame:add(fields.ppid, tvb(start + 3, 4))
            if contents then frame:add(fields.payload, contents) end
        elseif kind == 6 then
            frame:add(fields.early_received, tvb(start + 1, 1))
        elseif kind == 7 and contents then
            frame:add(fields.addresses, contents)
        elseif kind == 8 then
            frame:add(fields.spare, tvb(start + 1, 8))
        end
    end
end

local function show_repair(item, tvb, at, length)
    item:add(fields.repair_row, tvb(at, 1))
    if length >= 8 then item:add(fields.repair_first, tvb(at + 3, 4)) end
    if length >= 10 then item:add(fields.repair_mask, tvb(at + 7, 2)) end
    if length > 10 then item:add(fields.repair_sum, tvb(at + 9, length - 10)) end
end

-- Shows this format's own chunks, and hands the others to Wireshark, with the own ones behind the first of them.
local function show_payload(entry, header, payload, chunks, pinfo, tree, tvb, root)
    local rest
    for index, chunk in ipairs(chunks) do
        local kind, at, length, padded_bytes = chunk[1], chunk[2], chunk[3], chunk[4]
        if not CHUNK_NAMES[kind] then
            rest = rest or at
        elseif index <= ITEMS_SHOWN_MAX and (kind == REPAIR or not rest) then
            local item = tree:add(fields.chunk, tvb(at - 1, 1))
            item:set_len(padded_bytes)
            if kind == REPAIR and length >= 2 then
                show_repair(item, tvb, at, length)
            elseif length > 4 then
                item:add(fields.chunk_value, tvb(at + 3, length - 4))
            end
        end
    end
    local last = chunks[#chunks]
    if rest then
        local tag = entry.connection.tags[OTHER[entry.sender]] or header.receiver_id:sub(1, 4)
        show_chunks(entry.connection, entry.sender, tag, payload:sub(rest, last[2] + last[4] - 1), pinfo, root)
    end
end

-- The contents and their parts are decrypted again unless the packet was opened just now.
local function show_opened(entry, header, packet, tvb, pinfo, tree, root, payload, parts)
    local opened = entry.opened
    local payload_at = header.number_at + opened.number_bytes
    local cipher_bytes = header.behind - header.offset - payload_at - TAG_BYTES
    local is_short = header.level == "short"
    if not payload then
        local data = packet:sub(payload_at + 1, payload_at + cipher_bytes)
        payload = decrypt(opened.keys, opened.generation, opened.number, data)
        parts = (is_short and split_chunks or split_frames)(payload, cipher_bytes)
    end
    tree:add(fields.reserved, band(rshift(opened.first, is_short and 3 or 2), 3)):set_generated()
    if is_short then
        tree:add(fields.phase, band(rshift(opened.first, 2), 1)):set_generated()
        tree:add(fields.generation, opened.generation):set_generated()
    end
    tree:add(fields.number_bytes, opened.number_bytes):set_generated()
    local number = UInt64.new(opened.number % WORD, floor(opened.number / WORD) % WORD)
    tree:add(fields.number, tvb(header.offset + header.number_at, opened.number_bytes), number)
    if header.behind > tvb:len() then
        tree:add_proto_expert_info(experts.cut)
    else
        tree:add(fields.tag, tvb(header.behind - TAG_BYTES, TAG_BYTES))
    end
    local plain = ByteArray.new(payload, true):tvb("Decrypted " .. TYPES[header.level])
    if is_short then
        show_payload(entry, header, payload, parts or {}, pinfo, tree, plain, root)
    else
        show_frames(payload, parts or {}, tree, plain)
        show_parameters(entry, pinfo, tree, root)
    end
end

-- Shows one packet. Returns where the next begins, or nil if none follows.
local function show_packet(header, index, raw, tvb, pinfo, root)
    local captured = math.min(header.behind, #raw)
    local tree = root:add(festina, tvb(header.offset, captured - header.offset))
    tree:append_text(", " .. TYPES[header.level])
    tree:add(fields.kind, TYPES[header.level]):set_generated()
    tree:add(fields.first, tvb(header.offset, 1))
    if header.level == "short" then
        tree:add(fields.receiver, tvb(header.offset + 1, ID_BYTES))
    else
        tree:add(fields.version, tvb(header.offset + 1, 4))
        tree:add(fields.receiver, tvb(header.offset + 6, ID_BYTES))
        tree:add(fields.sender, tvb(header.offset + 15, ID_BYTES))
        tree:add(fields.length, tvb(header.offset + 23, 2))
    end
    if header.behind > tvb:reported_len() then
        tree:add_proto_expert_info(experts.malformed)
        return nil
    end
    local packet = raw:sub(header.offset + 1, captured)
    local seen = frames_seen[pinfo.number]
    if not seen then
        seen = {}
        frames_seen[pinfo.number] = seen
    end
    local entry, payload, parts = seen[index], nil, nil
    if not pinfo.visited or not entry then
        entry, payload, parts = open_first(header, packet, festina.prefs.keys)
        seen[index] = entry
    end
    if entry.opened then
        show_opened(entry, header, packet, tvb, pinfo, tree, root, payload, parts)
    else
        if captured > header.offset + header.number_at then
            tree:add(fields.protected, tvb(header.offset + header.number_at, captured - header.offset - header.number_at))
        end
        tree:add_proto_expert_info(entry.has_keys and experts.not_opened or experts.no_keys)
    end
    return header.behind
end

-- A list of versions (RFC 8999 §6) that holds one of ours, or the answer of an endpoint for plain SCTP.
local function is_version_list(raw)
    if #raw < 27 or byte(raw, 1) < 0x80 or raw:sub(2, 5) ~= "\0\0\0\0" then return false end
    if byte(raw, 6) ~= ID_BYTES or byte(raw, 15) ~= ID_BYTES then return false end
    local first = raw:sub(24, 27)
    return first == VERSION or first == PLAIN_SCTP
end

local function show_versions(tvb, pinfo, root)
    local tree = root:add(festina, tvb())
    tree:append_text(", version negotiation")
    tree:add(fields.kind, "version negotiation"):set_generated()
    tree:add(fields.receiver, tvb(6, ID_BYTES))
    tree:add(fields.sender, tvb(15, ID_BYTES))
    for index = 0, math.min(floor((tvb:len() - 23) / 4), ITEMS_SHOWN_MAX) - 1 do
        tree:add(fields.known_version, tvb(23 + 4 * index, 4))
    end
    pinfo.cols.protocol = "Festina"
    pinfo.cols.info = "Version negotiation"
end

-- Returns whether a datagram was one of ours, which is shown then.
local function dissect(tvb, pinfo, root)
    local size = tvb:len()
    if size < SHORT_HEADER_BYTES then return false end
    local first = tvb(0, 1):uint()
    if first < 0x60 or (first > 0x7f and first < 0xc0) or first > 0xef then return false end
    local raw = tvb:raw(0, size)
    if is_version_list(raw) then
        show_versions(tvb, pinfo, root)
        return true
    end
    local reported = tvb:reported_len()
    local header = read_header(raw, 0, reported)
    if not header or (header.level == "short" and not ids[header.receiver_id]) then return false end
    local names, index = {}, 0
    while header and index < PACKETS_PER_DATAGRAM_MAX do
        index = index + 1
        names[index] = TYPES[header.level]
        local behind = show_packet(header, index, raw, tvb, pinfo, root)
        header = behind and read_header(raw, behind, reported)
    end
    -- Chunks, if there are any, are in this column already.
    local is_sctp = tostring(pinfo.cols.protocol):find("SCTP", 1, true)
    if not is_sctp then pinfo.cols.info = "" end
    pinfo.cols.info:prepend(table.concat(names, ", ") .. (is_sctp and ": " or ""))
    pinfo.cols.protocol = "Festina"
    return true
end

local udp_ports = DissectorTable.get("udp.port")
local others = udp_ports:get_dissector(SCTP_PORT)

function festina.dissector(tvb, pinfo, root)
    if dissect(tvb, pinfo, root) then return tvb:len() end
    if not others or (pinfo.src_port ~= SCTP_PORT and pinfo.dst_port ~= SCTP_PORT) then return 0 end
    -- A packet that Wireshark finds malformed is shown as such, and then raised as an error. Where the capture has only a part of it,
    -- Wireshark 4.0 would leave this function without Lua's notice: there a copy without the missing part is malformed as well.
    local whole = tvb
    if tvb:len() < tvb:reported_len() then whole = ByteArray.new(tvb:raw(0, tvb:len()), true):tvb("Captured part") end
    local is_sound, taken = pcall(others.call, others, whole, pinfo, root)
    return is_sound and taken or tvb:len()
end

function festina.init()
    forget_all()
    forget_keys()
    refresh_keys(festina.prefs.keys)
end

-- Wireshark takes this port for plain SCTP.
udp_ports:add(SCTP_PORT, festina)
festina:register_heuristic("udp", dissect)
