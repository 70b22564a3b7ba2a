package oauth

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// An answerReader is a transport of token requests that makes answers readable for package oauth2, which gives up a
// whole answer for one member that it does not expect. By then the provider has used up the code or the refresh token,
// so the user would have to authorize again, each time in vain.
type answerReader struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a *answerReader) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")):
		body = readableJSON(body)
		resp.Header = resp.Header.Clone()
		resp.Header.Set("Content-Type", "application/json") // some providers say text/plain, which would be read as a form
	case media == "application/x-www-form-urlencoded" || media == "text/plain":
		body = readableForm(body)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// readableJSON returns an answer with a lifetime in whole seconds, or none, and with its scopes in one string. Some
// providers send a fraction or an empty text, and some send a list of scopes.
func readableJSON(body []byte) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return body
	}
	if raw, has := all["expires_in"]; has {
		delete(all, "expires_in")
		if s, ok := seconds(strings.Trim(string(raw), `"`)); ok {
			all["expires_in"] = json.RawMessage(strconv.Itoa(s))
		}
	}
	var scopes []string
	if json.Unmarshal(all["scope"], &scopes) == nil && scopes != nil {
		all["scope"], _ = json.Marshal(strings.Join(scopes, " "))
	}
	if text, err := json.Marshal(all); err == nil {
		return text
	}
	return body
}

// readableForm is readableJSON for an answer that is a form.
func readableForm(body []byte) []byte {
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("expires_in") {
		return body
	}
	s, ok := seconds(form.Get("expires_in"))
	form.Del("expires_in")
	if ok {
		form.Set("expires_in", strconv.Itoa(s))
	}
	return []byte(form.Encode())
}

// seconds returns a lifetime, at most 68 years. It returns false if the text says nothing usable. Zero and negative
// numbers count as such: no token is issued after its end, and some providers mean that the token does not expire.
func seconds(text string) (int, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if math.IsNaN(f) || err != nil && !math.IsInf(f, 1) || f < 1 {
		return 0, false
	}
	return int(min(f, math.MaxInt32)), true
}
