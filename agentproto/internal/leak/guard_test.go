package leak

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

// percent encodes every byte, or, if all is false, only what a URL requires.
func percent(s string, all bool) string {
	if !all {
		return url.QueryEscape(s)
	}
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestO19_EveryEncoding(t *testing.T) {
	secrets := []string{
		"canary-1", // as short as a secret may be
		"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl-_c2ln",
		`pa"ss\word/with+all=of&it?>` + "\u00fc\u2603",
		strings.Repeat("long-token_", 20),
	}
	encodings := map[string]func(string) string{
		"as it is":           func(s string) string { return s },
		"percent":            func(s string) string { return percent(s, false) },
		"percent, all of it": func(s string) string { return percent(s, true) },
		"percent, twice":     func(s string) string { return percent(percent(s, true), false) },
		"JSON":               quote,
		"JSON in JSON":       func(s string) string { return quote(quote(s)) },
		"JSON in an address": func(s string) string { return percent(quote(s), false) },
		"escapes": func(s string) string {
			var b strings.Builder
			for _, r := range s {
				fmt.Fprintf(&b, `\u%04X`, r)
			}
			return b.String()
		},
		"lines": func(s string) string { return s[:5] + "\r\n" + s[5:] },
	}
	for name, e := range map[string]*base64.Encoding{
		"std": base64.StdEncoding, "raw std": base64.RawStdEncoding, "url": base64.URLEncoding, "raw url": base64.RawURLEncoding,
	} {
		for before := range 4 {
			for after := range 3 {
				encodings[fmt.Sprintf("base64 %s after %d before %d", name, before, after)] = func(s string) string {
					return e.EncodeToString([]byte("\xff\xfe\xfd\xfc"[:before] + s + "\x01\x02\x03"[:after]))
				}
			}
		}
		encodings["base64 "+name+" in an address"] = func(s string) string { return percent(e.EncodeToString([]byte("?"+s)), false) }
		encodings["base64 "+name+" in lines"] = func(s string) string {
			var b strings.Builder
			for line := range slices.Chunk([]byte(e.EncodeToString([]byte("user:"+s))), 7) {
				fmt.Fprintf(&b, "%s\r\n", line)
			}
			return b.String()
		}
	}
	for _, s := range secrets {
		var g Guard
		if !g.Add(s) {
			t.Errorf("%.20q is not looked for", s)
		}
		for name, encode := range encodings {
			for _, text := range []string{encode(s), "before " + encode(s) + " after"} {
				if !g.Finds([]byte(text)) {
					t.Errorf("%s of %.20q is not found in %.100q", name, s, text)
				}
				if body := `{"text":` + quote(text) + `}`; !g.Finds([]byte(body)) {
					t.Errorf("%s of %.20q is not found in the message %.100q", name, s, body)
				}
			}
			// A text that lacks one of the last bytes, or differs there, is not the secret.
			others := []string{s[:len(s)-1], s[:len(s)-5] + "\x00" + s[len(s)-4:]}
			if len(s) < windowBytes {
				others = append(others, s[1:], "x"+s[1:])
			}
			for _, other := range others {
				if strings.Contains(other, s[max(0, len(s)-windowBytes):]) {
					continue // it repeats itself
				}
				if text := encode(other); g.Finds([]byte(text)) {
					t.Errorf("%s of %.20q is taken for %.20q", name, other, s)
				}
			}
		}
	}
}

// TestO19_PartsOfSecrets checks which part of a long secret the guard searches for: the last
// 16 bytes, or the bytes before them if the last ones are too regular.
func TestO19_PartsOfSecrets(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl-_c2ln"
	var g Guard
	g.Add(jwt)
	g.Add("padded_4711-token" + strings.Repeat("=", 20))
	g.Add("x" + strings.Repeat("0123456789abcdef", 100_000))
	for text, want := range map[string]bool{
		jwt[len(jwt)-16:]: true, jwt[len(jwt)-15:]: false, jwt[:16]: false, jwt[:len(jwt)-1]: false,
		"padded_4711-token" + strings.Repeat("=", 20): true, "====================": false, "0123456789abcdef": true,
	} {
		if g.Finds([]byte(text)) != want {
			t.Errorf("%q: found %t", text, !want)
		}
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var last Guard
	if last.Add(string(every)); !last.Finds(every[240:]) {
		t.Error("a secret with the last of all bytes is not found")
	}
	for _, weak := range []string{"", "1234567", strings.Repeat("a", 500_000), strings.Repeat("ab", 20), "aaaaaaaaaaaabcd", "aaaaaaaab", "00000001", "tool_result_ok"[:7]} {
		var g Guard
		if g.Add(weak) || g.Finds([]byte(weak+" tool_result "+weak)) {
			t.Errorf("%.20q is looked for", weak)
		}
	}
}

// TestO19_ValuesOfUsers issues one user more values than the guard searches for, while others
// have one each.
func TestO19_ValuesOfUsers(t *testing.T) {
	var g Guard
	ada, bob := Owner{User: "ada"}, Owner{User: "bob"}
	g.AddOnce(ada, "code-of-ada-4711")
	g.Replace(bob, "token-of-bob-0", "")
	for i := range 10_000 {
		g.AddOnce(bob, fmt.Sprintf("code-of-bob-%05d", i))
		g.Replace(bob, fmt.Sprintf("token-of-bob-%d", i/1000), "")
	}
	if n := len(g.table.Load().slots); n > 1024 {
		t.Errorf("the table has %d slots", n)
	}
	g.rebuild()
	for text, want := range map[string]bool{
		"code-of-ada-4711": true, "code-of-bob-09999": true, "code-of-bob-09996": true, "code-of-bob-09995": false,
		"token-of-bob-9": true, "token-of-bob-8": true, "token-of-bob-7": false,
	} {
		if g.Finds([]byte(text)) != want {
			t.Errorf("%q: found %t", text, !want)
		}
	}
	// A token in use is searched for, however many others exist.
	for i := range maxWindows/2 + 1000 {
		g.Replace(Owner{User: fmt.Sprint(i)}, fmt.Sprintf("token of user %d", i), "")
		if i%10_000 == 0 {
			g.Replace(bob, "token-of-bob-9", "")
		}
	}
	g.rebuild()
	if !g.Finds([]byte("token-of-bob-9")) || !g.Finds(fmt.Appendf(nil, "token of user %d", maxWindows/2)) || g.Finds([]byte("code-of-ada-4711")) {
		t.Error("what is used is forgotten, or what is not is kept for ever")
	}
	if n := len(g.table.Load().slots); n > 16*maxWindows {
		t.Errorf("the table has %d slots", n)
	}
}

// TestO19_AddedMeanwhile adds secrets during searches. A search finds every secret added
// before it began.
func TestO19_AddedMeanwhile(t *testing.T) {
	var g Guard
	var added atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for n := int64(0); n < 2000; n = added.Load() {
				if n > 0 && !g.Finds(fmt.Appendf(nil, "see: secret number %d!", n-1)) {
					t.Errorf("secret %d is not found", n-1)
					return
				}
				if g.Finds([]byte("see: secret number x")) {
					t.Error("what is no secret is found")
				}
			}
		})
	}
	for i := range 2000 {
		g.Add(fmt.Sprintf("secret number %d", i))
		added.Store(int64(i + 1))
	}
	all.Wait()
}

// manySecrets returns a guard with 100,000 tokens that begin or end alike.
func manySecrets() *Guard {
	g := new(Guard)
	for i := range 50_000 {
		g.Add(fmt.Sprintf("%s%08d", strings.Repeat("ab", 50), i))
		g.Add(fmt.Sprintf("%08d%s", i, strings.Repeat("a", 40)))
	}
	return g
}

// TestLeakCost searches worst-case texts. The work, counted in slots read, is a few per byte
// and encoding, whatever the text and the number of secrets.
func TestLeakCost(t *testing.T) {
	g := manySecrets()
	for name, unit := range map[string]string{
		"letters": "a", "starts": "abababab", "ends": "00000001", "almost": "abababab0000000", "escapes": `\\\\\\\u0061`, "percent": "%25%32%35", "plain": "plain text, ",
		"NUL": "\x00", "base64": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ab", 50))),
	} {
		text := []byte(strings.Repeat(unit, 1<<20/len(unit)))
		found, work := g.search(text)
		if found {
			t.Errorf("%s: a secret is found", name)
		}
		if limit := 4 * (len(peels) + 1) * len(text); work > limit {
			t.Errorf("%s: %d slots looked at for %d bytes, want at most %d", name, work, len(text), limit)
		}
	}
}

func BenchmarkLeakGuard(b *testing.B) {
	g := manySecrets()
	random := make([]byte, 6<<20)
	rand.Read(random)
	for name, text := range map[string][]byte{
		"letters": bytes.Repeat([]byte("a"), 8<<20), "random": []byte(base64.StdEncoding.EncodeToString(random)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				g.Finds(text)
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.Replace(Owner{User: fmt.Sprint(i)}, fmt.Sprintf("token of user %d", i), "")
		}
	})
}

// FuzzPeel checks that decoding never makes a text longer, leaves a text as it is if it reports that there is
// nothing to decode, and undoes the encoding.
func FuzzPeel(f *testing.F) {
	for _, s := range []string{"", `\`, `\u`, `\u00e`, `\x4`, `%`, `%4`, `%zz`, `a\nb`, `\ud83d\ude00`, "%41%42"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, peel := range peels {
			if out, changed := peel([]byte(s)); len(out) > len(s) || !changed && string(out) != s {
				t.Errorf("%q becomes %q, changed: %v", s, out, changed)
			}
		}
		if out, _ := unpercent([]byte(percent(s, true))); string(out) != s {
			t.Errorf("%q becomes %q", s, out)
		}
		if in, err := json.Marshal(s); err != nil {
			t.Error(err)
		} else if out, _ := unescape(in[1 : len(in)-1]); utf8.ValidString(s) && string(out) != s {
			t.Errorf("in JSON, %q becomes %q", s, out)
		}
		var g Guard
		if g.Add(s) && (!g.Finds([]byte("x"+s)) || !g.Finds([]byte("x"+s+"y"))) {
			t.Errorf("%q is not found", s)
		}
	})
}
