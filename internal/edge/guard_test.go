package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// guarded sends a request to a handler behind a guard, on a connection to a local address.
func guarded(h http.Handler, local string, r *http.Request) *httptest.ResponseRecorder {
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr))))
	return w
}

// TestHosts sends requests to all kinds of hosts.
func TestHosts(t *testing.T) {
	tests := []struct {
		local, host string
		want        bool
	}{
		{"127.0.0.1:7341", "127.0.0.1:7341", true},
		{"127.0.0.1:7341", "localhost:7341", true},
		{"127.0.0.1:7341", "LocalHost.:7341", true},
		{"127.0.0.1:7341", "[::ffff:127.0.0.1]:7341", true}, // the same address
		{"[::1]:7341", "[::1]:7341", true},
		{"[::1]:7341", "localhost:7341", true},
		{"192.0.2.7:7341", "192.0.2.7:7341", true},
		{"[::ffff:192.0.2.7]:7341", "192.0.2.7:7341", true},
		{"[fe80::7%1]:7341", "[fe80::7]:7341", true},
		{"127.0.0.1:80", "localhost", true},
		{"[::1]:80", "[::1]", true},
		{"127.0.0.1:7341", "agents.example", true},
		{"127.0.0.1:7341", "AGENTS.example.:9999", true},
		{"127.0.0.1:7341", "other.example:8443", true},
		{"127.0.0.1:7341", "other.example", false},
		{"127.0.0.1:7341", "other.example:8444", false},
		{"127.0.0.1:7341", "", false},
		{"127.0.0.1:7341", "rebound.example:7341", false},
		{"127.0.0.1:7341", "127.0.0.1.rebound.example:7341", false},
		{"127.0.0.1:7341", "localhost.rebound.example:7341", false},
		{"127.0.0.1:7341", "agents.example.rebound.example", false},
		{"127.0.0.1:7341", "localhost..:7341", false},
		{"127.0.0.1:7341", "localhost", false},
		{"127.0.0.1:7341", "localhost:80", false},
		{"127.0.0.1:7341", "localhost:", false},
		{"127.0.0.1:7341", "localhost:x", false},
		{"127.0.0.1:7341", "localhost:7341:7341", false},
		{"127.0.0.1:7341", "localhost:7341,rebound.example", false},
		{"127.0.0.1:7341", "rebound.example@localhost:7341", false},
		{"127.0.0.1:7341", "0.0.0.0:7341", false}, // some systems treat it as loopback
		{"127.0.0.1:7341", "127.1:7341", false},
		{"127.0.0.1:7341", "2130706433:7341", false},
		{"127.0.0.1:7341", "[::1]:7341", false},
		{"127.0.0.1:7341", "[::]:7341", false},
		{"127.0.0.1:7341", "127.0.0.2:7341", false},
		{"192.0.2.7:7341", "localhost:7341", false},
		{"192.0.2.7:7341", "192.0.2.8:7341", false},
	}
	h := Guard(Policy{Hosts: []string{"Agents.example", "other.example:8443"}}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, test := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = test.host
		got := guarded(h, test.local, r).Code
		if want := map[bool]int{true: 200, false: 421}[test.want]; got != want {
			t.Errorf("Host %q on %s: %d, want %d", test.host, test.local, got, want)
		}
	}
	whole := httptest.NewRequest("GET", "http://localhost:7341/", nil) // the whole URL is in the request line
	if got := guarded(h, "127.0.0.1:7341", whole).Code; got != 421 {
		t.Errorf("a whole URL is answered %d, want 421", got)
	}
}

// TestGuard changes one thing in a request at a time.
func TestGuard(t *testing.T) {
	const token = "0123456789abcdefghijklmnopqrstuvwxyz"
	type request = *http.Request
	tests := []struct {
		name   string
		change func(r request)
		want   int
	}{
		{"nothing", func(request) {}, 200},
		{"another spelling", func(r request) { r.Header.Set("Authorization", "bearer  "+token) }, 200},
		{"a charset", func(r request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200},
		{"typed by the user", func(r request) { r.Header.Set("Sec-Fetch-Site", "none") }, 200},
		{"identity", func(r request) { r.Header.Set("Content-Encoding", "identity") }, 200},
		{"no body and no type", func(r request) { r.ContentLength = 0; r.Header.Del("Content-Type") }, 200},
		{"another Host", func(r request) { r.Host = "rebound.example" }, 421},
		{"an Origin", func(r request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"its own Origin", func(r request) { r.Header.Set("Origin", "http://localhost:7341") }, 403},
		{"Origin null", func(r request) { r.Header.Set("Origin", "null") }, 403},
		{"an empty Origin", func(r request) { r.Header["Origin"] = []string{""} }, 403},
		{"another site", func(r request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"the same site", func(r request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"two sites", func(r request) { r.Header["Sec-Fetch-Site"] = []string{"none", "cross-site"} }, 403},
		{"no token", func(r request) { r.Header.Del("Authorization") }, 401},
		{"an empty token", func(r request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		{"no scheme", func(r request) { r.Header.Set("Authorization", token) }, 401},
		{"another scheme", func(r request) { r.Header.Set("Authorization", "Basic "+token) }, 401},
		{"a shorter token", func(r request) { r.Header.Set("Authorization", "Bearer "+token[:35]) }, 401},
		{"a longer token", func(r request) { r.Header.Set("Authorization", "Bearer "+token+"z") }, 401},
		{"two tokens", func(r request) { r.Header.Add("Authorization", "Bearer "+token) }, 401},
		{"a token in the query", func(r request) { r.Header.Del("Authorization"); r.URL.RawQuery = "access_token=" + token }, 401},
		{"text", func(r request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"a form", func(r request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		{"files", func(r request) { r.Header.Set("Content-Type", "multipart/form-data; boundary=b") }, 415},
		{"a problem", func(r request) { r.Header.Set("Content-Type", "application/problem+json") }, 415},
		{"no type", func(r request) { r.Header.Del("Content-Type") }, 415},
		{"two types", func(r request) { r.Header.Add("Content-Type", "text/plain") }, 415},
		{"two types in one", func(r request) { r.Header.Set("Content-Type", "application/json, text/plain") }, 415},
		{"chunks without a type", func(r request) { r.ContentLength = -1; r.Header.Del("Content-Type") }, 415},
		{"compressed", func(r request) { r.Header.Set("Content-Encoding", "gzip") }, 415},
		{"a GET with a body", func(r request) { r.Method = "GET" }, 400},
		{"a longer path", func(r request) { r.URL.Path = "//calls" }, 404},
		{"a way up", func(r request) { r.URL.Path = "/calls/../calls" }, 404},
		{"a dot", func(r request) { r.URL.Path = "/./calls" }, 404},
		{"no path", func(r request) { r.URL.Path, r.URL.Opaque = "", "*" }, 404},
	}
	for _, test := range tests {
		read := 0
		h := Guard(Policy{Token: NewToken(token), JSON: true}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest("POST", "/calls", nil)
		r.Body = readerFunc(func([]byte) (int, error) { read++; return 0, nil })
		r.Host, r.ContentLength = "localhost:7341", 2
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		test.change(r)
		w := guarded(h, "127.0.0.1:7341", r)
		if w.Code != test.want {
			t.Errorf("%s: %d, want %d", test.name, w.Code, test.want)
		}
		if read > 0 {
			t.Errorf("%s: the guard has read of the body", test.name)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", test.name, name)
			}
		}
		if test.want == 200 {
			continue
		}
		var said struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Error == "" || strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: it says %s", test.name, w.Body)
		}
		if w.Header().Get("Connection") != "close" {
			t.Errorf("%s: the connection stays open, with a body that nobody reads", test.name)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
func (f readerFunc) Close() error               { return nil }

// TestPages checks that a request from another site is accepted for a page, since people follow
// links to pages, and refused elsewhere.
func TestPages(t *testing.T) {
	h := Guard(Policy{Pages: "/oauth/"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for path, want := range map[string]int{"/oauth/callback/x": 200, "/invoke": 403, "/oauth": 403, "/oauth/../invoke": 404} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.Host = path, "localhost:8801"
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := guarded(h, "127.0.0.1:8801", r).Code; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// TestGuesses checks that wrong tokens are limited by address. The right token is served anyway:
// all users of one host share an address.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const right = "Bearer 0123456789abcdefghijklmnopqrstuvwxyz"
		h := Guard(Policy{Token: NewToken(strings.TrimPrefix(right, "Bearer ")), AnyHost: true}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(from, authorization string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = from
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			return guarded(h, "127.0.0.1:7341", r)
		}
		for i := range 100 { // a page in a browser can send these
			if code := ask("192.0.2.1:1", "").Code; code != 401 {
				t.Fatalf("request %d without a token: %d", i, code)
			}
		}
		for i := range 30 {
			want := 401
			if i >= 20 {
				want = 429
			}
			w := ask(fmt.Sprintf("192.0.2.1:%d", i), fmt.Sprintf("Bearer wrong-%d", i))
			if w.Code != want || want == 429 && w.Header().Get("Retry-After") != "11" {
				t.Errorf("guess %d: %d, Retry-After %q", i, w.Code, w.Header().Get("Retry-After"))
			}
		}
		for _, from := range []string{"192.0.2.1:1", "192.0.2.2:1"} {
			if code := ask(from, right).Code; code != 200 {
				t.Errorf("the right token from %s: %d", from, code)
			}
		}
		if code := ask("192.0.2.2:1", "Bearer wrong").Code; code != 401 {
			t.Errorf("a wrong token from another address: %d", code)
		}
		<-time.After(10 * time.Second)
		if code := ask("192.0.2.1:1", "Bearer wrong").Code; code != 401 {
			t.Errorf("a wrong token ten seconds later: %d", code)
		}
	})
}

// TestPeople sends the token as a browser does. Its guesses are limited too.
func TestPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const right = "0123456789abcdefghijklmnopqrstuvwxyz"
		token := NewToken(right)
		h := token.People(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(set func(*http.Request)) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
			set(r)
			h.ServeHTTP(w, r)
			return w
		}
		for name, want := range map[string]int{"any:" + right: 200, ":" + right: 200, right + ":": 401, "any:" + right + "x": 401, "any:": 401} {
			user, password, _ := strings.Cut(name, ":")
			if w := ask(func(r *http.Request) { r.SetBasicAuth(user, password) }); w.Code != want {
				t.Errorf("%q is answered %d, want %d", name, w.Code, want)
			}
		}
		if w := ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+right) }); w.Code != 200 {
			t.Errorf("the bearer token is answered %d", w.Code)
		}
		if w := ask(func(*http.Request) {}); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("nothing is answered %d, %q", w.Code, w.Header().Get("WWW-Authenticate"))
		}
		last := 0
		for i := range maxGuesses {
			last = ask(func(r *http.Request) { r.SetBasicAuth("any", fmt.Sprint("wrong", i)) }).Code
		}
		if last != 429 {
			t.Errorf("the last of many guesses is answered %d, want 429", last)
		}
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.SetBasicAuth("any", right)
		if Guard(Policy{Token: token, AnyHost: true}, h).ServeHTTP(w, r); w.Code != 401 {
			t.Errorf("a password is answered %d where nobody is asked for one", w.Code)
		}
	})
}

// TestGuessers checks that the memory for guessing addresses is bounded.
func TestGuessers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := NewToken("0123456789abcdefghijklmnopqrstuvwxyz")
		refused := 0
		for i := range 10 * maxGuessers {
			if token.guessed(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256), time.Now()) > 0 {
				refused++
			}
		}
		if n := len(token.guesses); n > maxGuessers+1 {
			t.Errorf("%d addresses are remembered, want at most %d", n, maxGuessers+1)
		}
		if want := 9*maxGuessers - maxGuesses; refused != want {
			t.Errorf("%d guesses were too many, want %d", refused, want)
		}
		<-time.After(guessWindow)
		token.guessed("192.0.2.1:1", time.Now())
		if n := len(token.guesses); n != 1 {
			t.Errorf("%d addresses are remembered later, want 1", n)
		}
	})
}

// TestTotal checks that the connections of all addresses together are bounded.
func TestTotal(t *testing.T) {
	c := newConns(2, 3)
	open := func(addr string) *from {
		f := &from{addr: addr}
		c.note(f, http.StateNew)
		return f
	}
	first, second, third := open("192.0.2.1:1"), open("192.0.2.2:1"), open("192.0.2.3:1")
	c.note(first, http.StateActive)
	if fourth := open("192.0.2.4:1"); !second.closed || first.closed || third.closed || fourth.closed {
		t.Errorf("closed: %v %v %v %v, want the second: it was idle for the longest time", first.closed, second.closed, third.closed, fourth.closed)
	} else {
		c.note(fourth, http.StateActive)
	}
	c.note(third, http.StateActive)
	if fifth := open("192.0.2.5:1"); !fifth.closed {
		t.Error("a connection was accepted although all are in use")
	}
	c.note(third, http.StateClosed)
	if sixth := open("192.0.2.5:1"); sixth.closed {
		t.Error("a connection was closed although there is room")
	}
}
