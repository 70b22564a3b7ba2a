package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
)

// BenchmarkLoopback measures a round trip over TCP, and the same for a handler written by hand:
// with one client at a time, and with one client per processor.
func BenchmarkLoopback(b *testing.B) {
	each(b, func(b *testing.B, h http.Handler) {
		server := httptest.NewServer(h)
		defer server.Close()
		post := func() {
			resp, err := server.Client().Post(server.URL+"/a", "text/plain", strings.NewReader("body"))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		b.Run("one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				post()
			}
		})
		b.Run("parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					post()
				}
			})
		})
	})
}

// BenchmarkHandler measures what a router adds to a request without a network.
func BenchmarkHandler(b *testing.B) {
	each(b, func(b *testing.B, h http.Handler) {
		b.ReportAllocs()
		for b.Loop() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/a", strings.NewReader("body")))
		}
	})
}

// each runs a benchmark with a handler written by hand and with a flow.
func each(b *testing.B, f func(*testing.B, http.Handler)) {
	b.Run("by hand", func(b *testing.B) {
		f(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				b.Error(err)
			}
			io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
		}))
	})
	b.Run("router", func(b *testing.B) {
		flow := dataflow.New()
		router, in := serve.HTTP(dataflow.At[Server](flow), "bench", serve.Options{})
		router.Respond(keyedsingleton.Map(in, echo))
		if _, err := dataflow.Start(b.Context(), flow); err != nil {
			b.Fatal(err)
		}
		f(b, router)
	})
}
