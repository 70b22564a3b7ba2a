package oauth

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A resourceAdder is a transport of token requests that adds the resource that the token is for
// (RFC 8707): package oauth2 cannot add a parameter to the request that renews a token.
type resourceAdder struct {
	resource string
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (a *resourceAdder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil {
		return a.next.RoundTrip(r)
	}
	data, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	body := string(data) + "&resource=" + url.QueryEscape(a.resource)
	r = r.Clone(r.Context())
	r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader(body)), nil, int64(len(body))
	return a.next.RoundTrip(r)
}
