// Package inprocess answers HTTP requests with a handler of this process, without a socket. It is for a
// runtime and tool servers in one program. No other program on the machine can reach such a handler, and
// no port has to stay the same.
package inprocess

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A Transport answers requests to the hosts in Handlers with their handlers. Requests to other hosts go to
// Next, or fail if it is nil.
type Transport struct {
	Handlers map[string]http.Handler // by scheme and host in lower case, such as http://clock.mcp.invalid
	Next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if h := t.Handlers[r.URL.Scheme+"://"+strings.ToLower(r.URL.Host)]; h != nil {
		return Serve(h, r)
	}
	if t.Next == nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("inprocess: there is nobody at %s", (&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host}).String())
	}
	return t.Next.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of Next.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Serve answers a client's request with a handler. It holds the answer in memory, and returns it when the
// handler returns. If the context of r ends first, Serve returns its error and the handler continues.
func Serve(h http.Handler, r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.Proto, in.ProtoMajor, in.ProtoMinor = r.URL.RequestURI(), "HTTP/1.1", 1, 1
	in.RemoteAddr = "127.0.0.1:0"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	in.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{header: make(http.Header)}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("inprocess: the handler of %s panicked", in.Host)
				return
			}
			done <- nil
		}()
		defer in.Body.Close()
		h.ServeHTTP(w, in)
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// An answer records what a handler writes.
type answer struct {
	header, sent http.Header
	status       int
	body         bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status, a.sent = status, a.header.Clone()
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
