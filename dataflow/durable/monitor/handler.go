package monitor

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/dataflow/durable"
)

// A Flow is a flow to watch, such as a [durable.App].
type Flow interface {
	Health() durable.Health
}

// Handler returns a handler of /livez, /readyz and /metrics, as the package comment describes. It may serve any
// number of requests at the same time. It panics if flow is nil.
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
	_, _ = w.Write(text) // the client may be gone
}

// limit keeps an answer out of caches, and its content type from being guessed.
func limit(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
}
