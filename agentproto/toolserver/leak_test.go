package toolserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
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
		g.addOnce(s)
		for name, encode := range encodings {
			for _, text := range []string{encode(s), "before " + encode(s) + " after"} {
				if !g.finds([]byte(text)) {
					t.Errorf("%s of %.20q is not found in %.100q", name, s, text)
				}
				if body := `{"text":` + quote(text) + `}`; !g.finds([]byte(body)) {
					t.Errorf("%s of %.20q is not found in the message %.100q", name, s, body)
				}
			}
			// What lacks a byte, or has another, is not the secret.
			for _, other := range []string{s[1:], s[:len(s)-1], "x" + s[1:], s[:len(s)/2] + "\x00" + s[len(s)/2+1:]} {
				if text := encode(other); g.finds([]byte(text)) {
					t.Errorf("%s of %.20q is taken for %.20q", name, other, s)
				}
			}
		}
	}
}

func TestO19_SecretsUsedOnce(t *testing.T) {
	var g leakGuard
	for i := range maxOnce + 10 {
		g.addOnce(fmt.Sprintf("secret-%08d", i))
	}
	for i, want := range map[int]bool{0: false, 9: false, 10: true, maxOnce: true, maxOnce + 9: true} {
		if g.finds(fmt.Appendf(nil, "secret-%08d", i)) != want {
			t.Errorf("secret %d: found %t", i, !want)
		}
	}
	if len(g.live) != maxOnce || len(g.byTail) > forms*maxOnce {
		t.Errorf("%d secrets in %d lists are kept", len(g.live), len(g.byTail))
	}
}

// TestLeakCost has texts that are as bad as can be, and doubles them: a cost that
// is not linear in the text would show.
func TestLeakCost(t *testing.T) {
	var g leakGuard
	for i := range 1000 {
		g.addOnce(fmt.Sprintf("%s%08d", strings.Repeat("ab", 50), i))
	}
	for name, unit := range map[string]string{"starts": "abababab", "ends": "00000001", "escapes": `\\\\\\\u0061`, "percent": "%25%32%35", "plain": "plain text, "} {
		cost := func(n int) time.Duration {
			text := []byte(strings.Repeat(unit, n/len(unit)))
			best := time.Hour
			for range 3 {
				start := time.Now()
				g.finds(text)
				best = min(best, time.Since(start))
			}
			return best
		}
		small, large := cost(1<<15), cost(1<<18)
		t.Logf("%s: %v for 32 KiB, %v for 256 KiB", name, small, large)
		if large > 40*small+20*time.Millisecond {
			t.Errorf("%s: %v for 32 KiB but %v for 256 KiB", name, small, large)
		}
	}
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
		if len(s) >= tail && strings.Trim(s, "\r\n") == s && len(comparableText(s)) >= tail {
			var g leakGuard
			g.addOnce(s)
			if !g.finds([]byte("x"+s)) || !g.finds([]byte(base64.URLEncoding.EncodeToString([]byte("x"+s)))) {
				t.Errorf("%q is not found", s)
			}
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
	guard.addOnce(secret)
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
