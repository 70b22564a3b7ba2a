package leak

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"
)

type teller struct{ text string }

func (t teller) String() string               { return t.text }
func (t teller) LogValue() slog.Value         { return slog.StringValue(t.text) }
func (t *teller) Error() string               { return t.text }
func (t teller) MarshalText() ([]byte, error) { return []byte(t.text), nil }

func TestO19_LogsAreRedacted(t *testing.T) {
	const secret = "canary/token+4711=="
	guard := new(Guard)
	guard.Add(secret)
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
			if guard.Finds(out.Bytes()) || strings.Count(out.String(), redacted) < 8 {
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
