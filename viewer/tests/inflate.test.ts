// Compressed data: what Node's zlib makes is read back.

import assert from "node:assert/strict";
import test from "node:test";
import { constants, deflateRawSync } from "node:zlib";
import { inflated } from "../src/inflate";

// A linear congruential generator (Lehmer, 1951), so that every run has the same texts.
function texts(seed: number, count: number): string {
  const words = ["tanh", "elementwise_mul", "x@GRAD", "日本語", "[-1,8]", " ", "😀"];
  const result: string[] = [];
  for (let i = 0; i < count; i++) {
    seed = (seed * 48271) % 2147483647;
    result.push(seed % 3 ? words[seed % words.length]! : String(seed));
  }
  return result.join("");
}

test("what is stored, has fixed codes, or codes of its own, is read back", () => {
  for (const text of ["", "a", "aaaaaaaaaaaaaaaaaaaaaaaa", texts(1, 30), texts(2, 3000), "x".repeat(100000) + texts(3, 200000)]) {
    const bytes = Buffer.from(text);
    for (const level of [0, 1, 6, 9]) {
      for (const strategy of [constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED, constants.Z_HUFFMAN_ONLY]) {
        assert.equal(inflated(deflateRawSync(bytes, { level, strategy }).toString("base64"), bytes.length), text);
      }
    }
  }
});
