// Package edge makes the HTTP servers and clients of this module. A [Server] limits what a client can
// use up: time, header, body, connections and waiting requests. A [Guard] decides who may use a
// listener that programs call and browsers do not: it checks the Host, the Origin, the bearer token
// and the type of the body, in this order, before the body is read.
//
// A [Client] makes requests to other servers, each once, and a [Curve] says when a failed request is
// repeated.
//
// Start reading at [New], [Guard] and [NewClient].
package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Options are the limits of a [Server]. A zero field means the default that its comment names.
type Options struct {
	// ReadHeader limits the time for the header of a request, Read for the request with its body, and
	// Idle for the pause between two requests of a connection. Zero means 5 s, 30 s and 60 s.
	ReadHeader, Read, Idle time.Duration
	// Write limits the time for the body of a request and the whole answer, from the end of the
	// header. Zero means Read plus 10 s. A handler that takes longer calls [Hold], or sets its own
	// deadline with [http.ResponseController].
	Write time.Duration

	// Body is the maximum size of a body, in bytes. Zero means 1 MiB. A negative number leaves the
	// limit to the handler.
	Body int64
	// Connections is the maximum number of connections of one address, or of one /64 network of IPv6.
	// Zero means 1024. To accept one more, the server closes the connection that has been idle for
	// the longest time. If none is idle, it closes the new one.
	Connections int
	// Total is the same limit for all addresses together. Zero means four times Connections.
	Total int
	// Waiting is the maximum number of requests that wait at the same time; see [Hold]. Zero means
	// 64.
	Waiting int

	// TLS holds the certificate. Nil means that connections are not encrypted.
	TLS *tls.Config
	// Log receives failed handshakes and panics, at DEBUG. Nil discards them.
	Log *slog.Logger
}

// A Server is an HTTP server with all limits set. Its methods may be used concurrently.
type Server struct {
	http    *http.Server
	handler http.Handler
	body    int64
	conns   *conns
	waiting chan struct{} // one element for each waiting request
}

// maxHeader limits the size of the header of a request. net/http adds 4 KiB to it.
const maxHeader = 16 << 10

// New returns a server that answers with h. A GET or HEAD request reaches h without its body, which
// has no meaning there.
func New(h http.Handler, o Options) *Server {
	set(&o.ReadHeader, 5*time.Second)
	set(&o.Read, 30*time.Second)
	set(&o.Idle, 60*time.Second)
	set(&o.Write, o.Read+10*time.Second)
	set(&o.Body, 1<<20)
	set(&o.Connections, 1024)
	set(&o.Total, 4*o.Connections)
	set(&o.Waiting, 64)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{handler: h, body: o.Body, conns: newConns(o.Connections, o.Total), waiting: make(chan struct{}, o.Waiting)}
	base := context.WithValue(context.Background(), serverKey{}, s)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: o.ReadHeader,
		ReadTimeout:       o.Read,
		WriteTimeout:      o.Write,
		IdleTimeout:       o.Idle,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         o.TLS,
		ConnState:         s.conns.note,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

func set[T int | int64 | time.Duration](field *T, to T) {
	if *field == 0 {
		*field = to
	}
}

// serverKey is the context key of a request's server.
type serverKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case !hasBody(r):
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		w.Header().Set("Connection", "close") // so that net/http does not look for the next request
		r.Body, r.ContentLength = http.NoBody, 0
	case s.body >= 0 && r.ContentLength > s.body:
		Refuse(w, r, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	case s.body >= 0:
		r.Body = http.MaxBytesReader(w, r.Body, s.body)
	}
	s.handler.ServeHTTP(w, r)
}

// hasBody reports whether a request has a body, or may have one.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// Serve answers requests from l until the server is closed, and closes l. It returns nil after
// [Server.Close] and [Server.Shutdown].
func (s *Server) Serve(l net.Listener) (err error) {
	if s.http.TLSConfig != nil {
		err = s.http.ServeTLS(l, "", "")
	} else {
		err = s.http.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown accepts no new connections and waits until running requests are answered. When ctx ends,
// it closes what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.conns.closeUnused()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// Close closes all connections.
func (s *Server) Close() error { return s.http.Close() }

// Connections returns the number of open connections.
func (s *Server) Connections() int { return s.conns.len() }
