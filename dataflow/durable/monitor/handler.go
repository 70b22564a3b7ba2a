package monitor

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/dataflow/durable"
)

// A Flow is what is watched: a [durable.App].
type Flow interface {
	Health() durable.Health
}

// Handler returns a handler of /livez, /readyz and /metrics, as the package comment says. Any
// number of requests may be served at the same time. It panics if flow is nil.
func Handler(flow Flow) http.Handler {
	if flow == nil {
		panic("monitor: Handler needs a flow: what durable.Start returned")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", probe(flow, (*durable.Health).Live))
	mux.HandleFunc("GET /readyz", probe(flow, (*durable.Health).Ready))
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collector(flow))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		limit(w.Header())
		metrics.ServeHTTP(w, r)
	})
	return mux
}

// probe answers 200, or 503 with what is wrong.
func probe(flow Flow, wrong func(*durable.Health) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		h := flow.Health()
		status, text := http.StatusOK, "ok\n"
		if err := wrong(&h); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()+"\n"
		}
		answer(w, status, "text/plain; charset=utf-8", []byte(text))
	}
}

func answer(w http.ResponseWriter, status int, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	limit(w.Header())
	w.WriteHeader(status)
	_, _ = w.Write(text) // who asked may be gone
}

// limit has an answer not kept, and taken for nothing else than it is.
func limit(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
}
