package promhost_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/host/promhost"
)

// A program serves its runtime's metrics beside its own.
func Example() {
	ctx := context.Background()
	rt, err := host.Start(ctx, host.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Stop(ctx)

	registry := prometheus.NewRegistry()
	registry.MustRegister(promhost.Collector(rt))
	site := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer site.Close()
	resp, err := http.Get(site.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "millrace_prompts_open") {
			fmt.Print(line)
		}
	}
	// Output:
	// millrace_prompts_open 0
}
