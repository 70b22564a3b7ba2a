package peer

import (
	"net/http"
	"testing"
)

// TestHeadersAreForAllowedOrigins checks that a call to an endpoint whose origin is no
// longer allowed carries no header.
func TestHeadersAreForAllowedOrigins(t *testing.T) {
	ps := &Peers{All: []*Server{
		{Base: "http://a.test", origin: "http://a.test:80", header: http.Header{"X-Key": {"k"}}},
		{Base: "http://b.test/x", origin: "http://b.test:80"},
	}, origins: map[string]bool{"http://files.test:80": true, "http://b.test:80": true}}
	for to, want := range map[string]string{
		"http://a.test/invoke": "k", "http://A.test:80/x": "k", "http://files.test/x": "k",
		"http://b.test/x": "", "http://gone.test/x": "", "https://a.test/x": "", "http://a.test:8080/x": "",
	} {
		req, err := ps.newPost(t.Context(), ps.All[0], to, "id", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("X-Key"); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}
