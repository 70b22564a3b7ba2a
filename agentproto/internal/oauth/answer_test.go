package oauth

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/internal/authorize"
)

// TestStrangeAnswers renews a token with answers whose lifetime or scopes are not of the usual form. The test fails if an
// answer with a token is lost, if a fresh token counts as expired, or if it counts as having scopes that it does not have.
func TestStrangeAnswers(t *testing.T) {
	const token = `{"access_token":"a2","refresh_token":"r2","token_type":"Bearer"`
	never, longest := time.Duration(0), math.MaxInt32*time.Second
	for _, c := range []struct {
		kind, body string
		lasts      time.Duration
		scopes     string
	}{
		{"application/json", token + `}`, never, "base write"},
		{"application/json", token + `,"expires_in":3600}`, time.Hour, "base write"},
		{"application/json", token + `,"expires_in":"3600"}`, time.Hour, "base write"},
		{"application/json", token + `,"expires_in":3599.997}`, 3599 * time.Second, "base write"},
		{"application/json", token + `,"expires_in":"3600.0"}`, time.Hour, "base write"},
		{"application/json", token + `,"expires_in":1e9}`, 1e9 * time.Second, "base write"},
		{"application/json", token + `,"expires_in":1e400}`, longest, "base write"},
		{"application/json", token + `,"expires_in":99999999999999999999}`, longest, "base write"},
		{"application/json", token + `,"expires_in":""}`, never, "base write"},
		{"application/json", token + `,"expires_in":null}`, never, "base write"},
		{"application/json", token + `,"expires_in":"NaN"}`, never, "base write"},
		{"application/json", token + `,"expires_in":{"seconds":5}}`, never, "base write"},
		{"application/json", token + `,"expires_in":0}`, never, "base write"},
		{"application/json", token + `,"expires_in":-1}`, never, "base write"},
		{"application/json", token + `,"expires_in":-1e400}`, never, "base write"},
		{"application/json", token + `,"expires_in":-4294963696}`, never, "base write"}, // an hour in 32 bits
		{"application/json", token + `,"scope":["write"]}`, never, "write"},
		{"application/json", token + `,"scope":[]}`, never, "base write"},
		{"application/json", token + `,"scope":null}`, never, "base write"},
		{"text/plain", " " + token + `,"expires_in":60.5}`, time.Minute, "base write"},
		{"text/html", token + `,"expires_in":60}`, time.Minute, "base write"},
		{"application/x-www-form-urlencoded", "access_token=a2&refresh_token=r2&expires_in=60.5&scope=write", time.Minute, "write"},
		{"application/x-www-form-urlencoded", "access_token=a2&refresh_token=r2&expires_in=99999999999", longest, "base write"},
		{"application/x-www-form-urlencoded", "access_token=a2&refresh_token=r2&expires_in=-9", never, "base write"},
		{"text/plain; charset=utf-8", "access_token=a2&refresh_token=r2", never, "base write"},
	} {
		t.Run(c.kind+" "+c.body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tokens := memory{ada: {Access: "a1", Refresh: "r1", Expiry: time.Now().Add(-time.Minute), Scopes: []string{"base", "write"}}}
				client := newClient(t, new(provider), tokens, false)
				client.o.Transport = typed{c.kind, c.body}
				if o := client.Do(t.Context(), ada.Runtime, job(authorize.Fetch)); o.Class != authorize.Good {
					t.Fatalf("outcome %+v", o)
				}
				got := tokens[ada]
				if got.Access != "a2" || got.Refresh != "r2" || !slices.Equal(got.Scopes, strings.Fields(c.scopes)) {
					t.Errorf("kept %q, %q and %q", got.Access, got.Refresh, got.Scopes)
				}
				lasts := never
				if !got.Expiry.IsZero() {
					lasts = time.Until(got.Expiry)
				}
				if lasts != c.lasts {
					t.Errorf("it lasts %v, want %v", lasts, c.lasts)
				}
			})
		})
	}
}

// A typed transport answers each request with one body.
type typed struct{ kind, body string }

func (a typed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}
