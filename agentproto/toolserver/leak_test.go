package toolserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// percent encodes every byte, or, if all is false, what an address needs.
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
		"canary-1", // the shortest that is looked for
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
		var g leakGuard
		if !g.add(NewSecret(s)) {
			t.Errorf("%.20q is not looked for", s)
		}
		for name, encode := range encodings {
			for _, text := range []string{encode(s), "before " + encode(s) + " after"} {
				if !g.finds([]byte(text)) {
					t.Errorf("%s of %.20q is not found in %.100q", name, s, text)
				}
				if body := `{"text":` + quote(text) + `}`; !g.finds([]byte(body)) {
					t.Errorf("%s of %.20q is not found in the message %.100q", name, s, body)
				}
			}
			// What lacks a byte of the last ones, or has another there, is not the secret.
			others := []string{s[:len(s)-1], s[:len(s)-5] + "\x00" + s[len(s)-4:]}
			if len(s) < windowBytes {
				others = append(others, s[1:], "x"+s[1:])
			}
			for _, other := range others {
				if strings.Contains(other, s[max(0, len(s)-windowBytes):]) {
					continue // it repeats itself
				}
				if text := encode(other); g.finds([]byte(text)) {
					t.Errorf("%s of %.20q is taken for %.20q", name, other, s)
				}
			}
		}
	}
}

// TestO19_PartsOfSecrets says what of a long secret is looked for: its last 16 bytes, or those
// before them if the last ones say nothing.
func TestO19_PartsOfSecrets(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl-_c2ln"
	var g leakGuard
	g.add(NewSecret(jwt))
	g.add(NewSecret("padded_4711-token" + strings.Repeat("=", 20)))
	g.add(NewSecret("x" + strings.Repeat("0123456789abcdef", 100_000)))
	for text, want := range map[string]bool{
		jwt[len(jwt)-16:]: true, jwt[len(jwt)-15:]: false, jwt[:16]: false, jwt[:len(jwt)-1]: false,
		"padded_4711-token" + strings.Repeat("=", 20): true, "====================": false, "0123456789abcdef": true,
	} {
		if g.finds([]byte(text)) != want {
			t.Errorf("%q: found %t", text, !want)
		}
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var last leakGuard
	if last.add(NewSecret(string(every))); !last.finds(every[240:]) {
		t.Error("a secret with the last of all bytes is not found")
	}
	for _, weak := range []string{"", "1234567", strings.Repeat("a", 500_000), strings.Repeat("ab", 20), "aaaaaaaaaaaabcd", "aaaaaaaab", "tool_result_ok"[:7]} {
		var g leakGuard
		if g.add(NewSecret(weak)) || g.finds([]byte(weak+" tool_result "+weak)) {
			t.Errorf("%.20q is looked for", weak)
		}
	}
}

// TestO19_ValuesOfUsers has one user have more values issued than are looked for, while
// others have one each.
func TestO19_ValuesOfUsers(t *testing.T) {
	var g leakGuard
	ada, bob := TokenKey{User: "ada"}, TokenKey{User: "bob"}
	g.addOnce(ada, "code-of-ada-4711")
	g.replace(bob, &UserToken{Access: NewSecret("token-of-bob-0")})
	for i := range 10_000 {
		g.addOnce(bob, fmt.Sprintf("code-of-bob-%05d", i))
		g.replace(bob, &UserToken{Access: NewSecret(fmt.Sprintf("token-of-bob-%d", i/1000))})
	}
	if n := len(g.table.Load().slots); n > 1024 {
		t.Errorf("the table has %d slots", n)
	}
	g.rebuild()
	for text, want := range map[string]bool{
		"code-of-ada-4711": true, "code-of-bob-09999": true, "code-of-bob-09996": true, "code-of-bob-09995": false,
		"token-of-bob-9": true, "token-of-bob-8": true, "token-of-bob-7": false,
	} {
		if g.finds([]byte(text)) != want {
			t.Errorf("%q: found %t", text, !want)
		}
	}
	// A token that is used is looked for, however many others there are.
	for i := range maxWindows/2 + 1000 {
		g.replace(TokenKey{User: fmt.Sprint(i)}, &UserToken{Access: NewSecret(fmt.Sprintf("token of user %d", i))})
		if i%10_000 == 0 {
			g.replace(bob, &UserToken{Access: NewSecret("token-of-bob-9")})
		}
	}
	g.rebuild()
	if !g.finds([]byte("token-of-bob-9")) || !g.finds(fmt.Appendf(nil, "token of user %d", maxWindows/2)) || g.finds([]byte("code-of-ada-4711")) {
		t.Error("what is used is forgotten, or what is not is kept for ever")
	}
	if n := len(g.table.Load().slots); n > 16*maxWindows {
		t.Errorf("the table has %d slots", n)
	}
}

// TestO19_AddedMeanwhile adds secrets while others search. What was added before a search
// begins is found by it.
func TestO19_AddedMeanwhile(t *testing.T) {
	var g leakGuard
	var added atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for n := int64(0); n < 2000; n = added.Load() {
				if n > 0 && !g.finds(fmt.Appendf(nil, "see: secret number %d!", n-1)) {
					t.Errorf("secret %d is not found", n-1)
					return
				}
				if g.finds([]byte("see: secret number x")) {
					t.Error("what is no secret is found")
				}
			}
		})
	}
	for i := range 2000 {
		g.add(NewSecret(fmt.Sprintf("secret number %d", i)))
		added.Store(int64(i + 1))
	}
	all.Wait()
}

// manySecrets is a guard with 100,000 tokens that begin and end alike.
func manySecrets() *leakGuard {
	g := new(leakGuard)
	for i := range 50_000 {
		g.add(NewSecret(fmt.Sprintf("%s%08d", strings.Repeat("ab", 50), i)))
		g.add(NewSecret(fmt.Sprintf("%08d%s", i, strings.Repeat("a", 40))))
	}
	return g
}

// TestLeakCost has texts that are as bad as can be. The work, in slots that are looked at, is
// a few for each byte and each encoding, whatever the text and however many secrets there are.
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
				g.finds(text)
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.replace(TokenKey{User: fmt.Sprint(i)}, &UserToken{Access: NewSecret(fmt.Sprintf("token of user %d", i))})
		}
	})
}

// FuzzPeel checks that what is peeled off gets no longer, and that encoding is
// undone.
func FuzzPeel(f *testing.F) {
	for _, s := range []string{"", `\`, `\u`, `\u00e`, `\x4`, `%`, `%4`, `%zz`, `a\nb`, `\ud83d\ude00`, "%41%42"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, peel := range peels {
			if out, changed := peel([]byte(s)); len(out) > len(s) || changed == (len(s) == 0) && changed {
				t.Errorf("%q becomes %q", s, out)
			}
		}
		if out, _ := unpercent([]byte(percent(s, true))); string(out) != s {
			t.Errorf("%q becomes %q", s, out)
		}
		var g leakGuard
		if g.add(NewSecret(s)) && (!g.finds([]byte("x"+s)) || !g.finds([]byte("x"+s+"y"))) {
			t.Errorf("%q is not found", s)
		}
	})
}

type teller struct{ text string }

func (t teller) String() string               { return t.text }
func (t teller) LogValue() slog.Value         { return slog.StringValue(t.text) }
func (t *teller) Error() string               { return t.text }
func (t teller) MarshalText() ([]byte, error) { return []byte(t.text), nil }

func TestO19_LogsAreRedacted(t *testing.T) {
	const secret = "canary/token+4711=="
	guard := new(leakGuard)
	guard.add(NewSecret(secret))
	for _, form := range []string{secret, percent(secret, true), quote(secret), base64.StdEncoding.EncodeToString([]byte("u:" + secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
		for name, value := range map[string]any{
			"text": form, "error": errors.New(form), "wrapped": fmt.Errorf("GET %w", &teller{form}), "stringer": teller{form}, "bytes": []byte(form),
			"struct": struct{ A, b string }{form, form}, "slice": []string{"x", form}, "map": map[string]any{"k": []string{form}}, "pointer": &struct{ A string }{form},
			"url": &url.URL{Scheme: "https", Host: "x", RawQuery: "t=" + form}, "group": slog.GroupValue(slog.String("k", form)), "valuer": slog.AnyValue(teller{form}),
		} {
			var out bytes.Buffer
			for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
				log := slog.New(&redactor{h, guard})
				log.Info("message", "k", value)
				log.With("k", value).WithGroup("g").Info("message")
				log.InfoContext(context.Background(), "message "+form, slog.Group("g", "k", value))
			}
			if guard.finds(out.Bytes()) || strings.Count(out.String(), redacted) < 8 {
				t.Errorf("%s: %s", name, out.String())
			}
		}
	}
	var out bytes.Buffer
	log := slog.New(&redactor{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}), guard})
	log.Debug("not enabled")
	log.With("a", 1).WithGroup("g").Info("harmless", "b", "two", "c", time.Second, "d", errors.New("e"))
	if got := out.String(); strings.Contains(got, redacted) || !strings.HasSuffix(got, "msg=harmless a=1 g.b=two g.c=1s g.d=e\n") {
		t.Errorf("what is harmless becomes %s", got)
	}
}

func TestO19_SecretIsNotEncoded(t *testing.T) {
	type config struct {
		Name  string
		Token Secret
	}
	var out bytes.Buffer
	for _, v := range []any{NewSecret(canary), config{"n", NewSecret(canary)}, map[string]Secret{"k": NewSecret(canary)}} {
		gob.NewEncoder(&out).Encode(v) // which may be an error
		b, _ := cbor.Marshal(v)
		out.Write(b)
	}
	if strings.Contains(out.String(), canary) {
		t.Error("the secret is encoded")
	}
}
