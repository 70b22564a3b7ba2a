package plain

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// forbidden reports whether r must not reach a terminal. It does not use Hidden, but blocks and
// categories of Unicode.
func forbidden(r rune) bool {
	switch {
	case r < 0x20, 0x7F <= r && r <= 0x9F, // C0, DEL, C1
		0x200B <= r && r <= 0x200F, 0x2028 <= r && r <= 0x202E, 0x2060 <= r && r <= 0x206F, r == 0xFEFF, r == 0x061C,
		r == 0xAD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x180E,
		0xFE00 <= r && r <= 0xFE0D, 0xE0000 <= r && r <= 0xE0FFF, 0xD800 <= r && r <= 0xDFFF:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Bidi_Control)
}

// random returns a string of random characters. Some of its bytes may be invalid UTF-8.
func random(rnd *rand.Rand) string {
	var b strings.Builder
	for range rnd.IntN(40) {
		switch rnd.IntN(6) {
		case 0:
			b.WriteByte(byte(rnd.IntN(256)))
		case 1:
			b.WriteRune(rune(0x2000 + rnd.IntN(0x70)))
		case 2:
			b.WriteRune(rune(0xE0000 + rnd.IntN(0x200)))
		case 3:
			b.WriteRune(rune(0xFE00 + rnd.IntN(16)))
		case 4:
			b.WriteRune(rune(rnd.IntN(unicode.MaxRune + 1)))
		default:
			b.WriteRune(rune(' ' + rnd.IntN(95)))
		}
	}
	return b.String()
}

// TestNothingForbidden checks that no forbidden character gets through, alone or among others,
// and that visible characters are not changed.
func TestNothingForbidden(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got := Line(string(r)); forbidden(r) && strings.ContainsFunc(got, forbidden) {
			t.Fatalf("U+%04X got through", r)
		}
		if unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S, unicode.Zs) && !forbidden(r) {
			if got := Line(string(r)); got != string(r) {
				t.Fatalf("U+%04X, which can be seen, became %q", r, got)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		s := random(rnd)
		line, text := Line(s), Text(s)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, forbidden) {
			t.Fatalf("Line(%q) = %q", s, line)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return forbidden(r) && r != '\n' && r != '\t' }) {
			t.Fatalf("Text(%q) = %q", s, text)
		}
		if Line(line) != line {
			t.Fatalf("Line(Line(%q)) = %q", s, Line(line))
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain é 漢字 עברית 　 ":      "plain é 漢字 עברית 　 ",
		"❤\uFE0F and \u2709\uFE0E": "❤\uFE0F and \u2709\uFE0E",
		"❤\uFE0F\uFE0F\uFE0E":      `❤` + "\uFE0F" + `\u{fe0f}\u{fe0e}`,
		"\uFE0F":                   `\u{fe0f}`,
		"\x1b[2J\x9b":              `\u{1b}[2J\x{9b}`,
		"\u009b1m":                 `\u{9b}1m`,
		"a\u202Eb\u2066":           `a\u{202e}b\u{2066}`,
		"x\u200B\u200Dy":           `x\u{200b}\u{200d}y`,
		"\U000E0041\U000E0100":     `\u{e0041}\u{e0100}`,
		"a\nb\tc\r\x7f":            `a\u{a}b\u{9}c\u{d}\u{7f}`,
		"\u2028\uFEFF\uFFFD":       "\\u{2028}\\u{feff}\uFFFD",
		"\uE000\U000FFFFE":         `\u{e000}\u{ffffe}`,
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := Text("a\n\tb\r\n\x1b"), "a\n\tb\\u{d}\n\\u{1b}"; got != want {
		t.Errorf("Text: %q, want %q", got, want)
	}
}

// TestWriter checks that no forbidden character gets through when it is written in parts.
func TestWriter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		s := random(rnd) + "."
		var b bytes.Buffer
		w := NewWriter(&b)
		for rest := s; rest != ""; {
			n := 1 + rnd.IntN(len(rest))
			if done, err := w.Write([]byte(rest[:n])); done != n || err != nil {
				t.Fatalf("Write = %d, %v", done, err)
			}
			rest = rest[n:]
		}
		got := b.String()
		if strings.ContainsFunc(got, func(r rune) bool { return forbidden(r) && r != '\n' && r != '\t' }) || !strings.HasSuffix(got, ".") {
			t.Fatalf("%q became %q", s, got)
		}
		if utf8.ValidString(s) && !strings.ContainsAny(s, "\uFE0E\uFE0F") && got != Text(s) {
			t.Fatalf("%q became %q, want %q", s, got, Text(s))
		}
	}
}

// TestJSON checks that the result of JSON contains no forbidden characters, is valid, and has
// the same meaning.
func TestJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		want := strings.ToValidUTF8(random(rnd), "")
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]string{"a": want, want: "b"}); err != nil {
			t.Fatal(err)
		}
		out := JSON(b.Bytes())
		if bytes.ContainsFunc(bytes.TrimRight(out, "\n"), func(r rune) bool { return forbidden(r) || r == 0xFE0F }) {
			t.Fatalf("%q became %q", b.String(), out)
		}
		var got map[string]string
		if err := json.Unmarshal(out, &got); err != nil || want != "a" && got["a"] != want {
			t.Fatalf("%q became %q: %v", b.String(), out, err)
		}
	}
	if plain := []byte("{\n\t\"a\": \"é\"}"); &JSON(plain)[0] != &plain[0] {
		t.Error("JSON without anything hidden was copied")
	}
}
