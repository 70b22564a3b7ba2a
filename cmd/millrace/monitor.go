package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/host/promhost"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/dataflow/inspect/prominspect"
	"github.com/millrace/millrace/internal/edge"
)

// A watched is a durable runtime.
type watched struct {
	rt   *host.Runtime
	runs context.Context // ends when the runtime should stop
	note func(toolServer string) string
}

// Health returns the health of its flow.
func (w watched) Health() durable.Health {
	h, _ := w.rt.Health()
	return h
}

// Backup copies its history. The copy ends when the runtime should stop, since the stop would wait for it.
func (w watched) Backup(ctx context.Context, to journal.Opener) (durable.Copied, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.runs, func() { cancel(durable.ErrStopped) })()
	return w.rt.Backup(ctx, to)
}

// backupsIn makes the folder for backups if it does not exist, and returns its absolute name. It is called at the start, so that
// a problem does not first appear at a backup.
func backupsIn(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// flowName is the name of the flow in the page and the metrics.
const flowName = "agent runtime"

// inspectPages begins the paths of the pages of the flow.
const inspectPages = "/inspect/"

// flowPages returns the pages of the flow and of what the runtime does. With a token they show values, and allow answering,
// retrying and skipping. Without one they show none of that, because everybody who can reach the address can see them.
func flowPages(rt *host.Runtime, token string, note func(toolServer string) string) http.Handler {
	trusted := token != ""
	return http.StripPrefix(strings.TrimSuffix(inspectPages, "/"), inspect.Handler(rt.Flow(), inspect.Options{
		Name: flowName, AnyHost: true, Token: token, Values: trusted,
		Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{Answers: trusted, Note: note})},
	}))
}

// metrics serves all metrics in one answer: those of the history, the flow, the runtime and the process.
func (w watched) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		monitor.Collector(w), prominspect.Collector(w.rt.Flow(), prominspect.Options{Name: flowName}), promhost.Collector(w.rt),
		collectors.NewBuildInfoCollector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// serveMonitor serves probes, the metrics for Prometheus, and a page of the flow, and makes backups if there is a folder for
// them, until stop is called. It continues while the runtime stops, and reports that to its clients.
func serveMonitor(w watched, address, backups string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	local, err := onLoopback(address)
	if err != nil {
		listener.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", monitor.Handler(w))
	mux.Handle("GET /metrics", w.metrics())
	mux.Handle(inspectPages, flowPages(w.rt, "", w.note))
	if backups != "" {
		mux.Handle("/backup", monitor.Backup(w, backups, disklog.Dir))
		fmt.Fprintf(stderr, "millrace serve: POST http://%s/backup makes backups in %s\n", listener.Addr(), backups)
	}
	server := edge.New(edge.Guard(edge.Policy{AnyHost: !local}, mux), edge.Options{})
	fmt.Fprintf(stderr, "millrace serve: metrics at http://%s/metrics, the flow at http://%s%s\n", listener.Addr(), listener.Addr(), inspectPages)
	go server.Serve(listener)
	return func() { server.Close() }, nil
}
