// Package promhost exports the counts of a runtime as Prometheus metrics.
//
//	registry.MustRegister(promhost.Collector(rt))
//	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// Start with [Collector], the only function. Package promhttp of client_golang serves the metrics. Package prominspect exports
// the figures of the runtime's flow, and package monitor those of its history, for the same registry.
//
// # Metrics
//
// Metrics with the label toolset, the base URL of a tool server. It is empty for events that concern no tool server: a call of a
// tool that nobody offers, a callback at a URL that was never issued.
//
//	millrace_calls_made_total           calls made, including rejected ones
//	millrace_calls_total                calls resolved, by outcome: result of a tool, or failure
//	millrace_invocations_total          requests that posted a call, including repetitions
//	millrace_callbacks_dropped_total    by reason: duplicate, late and repeated had no effect; malformed and
//	                                    forged were refused; busy were answered 503
//	millrace_callbacks_forwarded_total  forwarded to the host that has their session now
//	millrace_events_total               events of subscriptions
//	millrace_events_dropped_total       by reason: unsubscribed, or left_out because there were too many
//	millrace_views_total                views passed to the surface
//
// Metrics with the label model, the name of a model. It is empty for a model without a name:
//
//	millrace_model_requests_total       how often it was asked
//	millrace_model_failures_total       how many of these failed
//	millrace_model_fallbacks_total      rounds in which another model was asked after it
//	millrace_model_tokens_total         by kind: input, cached (a part of input), and output
//
// Metrics of the process:
//
//	millrace_prompts_open               open prompts that this process has shown to users
//	millrace_memory_bytes               memory in use, as the garbage collector last measured it
//	millrace_memory_limit_bytes         the limit host.Bounds.Memory; absent without a limit
//	millrace_bodies_bytes               messages that are being read or handled
//	millrace_bodies_limit_bytes         the limit host.Bounds.Bodies
//
// Each process counts only what it does itself. As long as all processes run, the number of pending calls is the sum of the calls
// made in all of them minus the sum of the calls resolved.
package promhost

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/agentproto/host"
)

// A Runtime is the source of the metrics: a [host.Runtime].
type Runtime interface {
	Stats() host.Stats
}

// Collector returns the metrics of a runtime, as described in the package comment. It panics if rt is nil.
func Collector(rt Runtime) prometheus.Collector {
	if rt == nil {
		panic("promhost: Collector needs a runtime: what host.Start returned")
	}
	return &collector{rt}
}

// A collector collects the figures of a runtime.
type collector struct{ rt Runtime }

// A counter is a metric of a tool server.
type counter struct {
	desc   *prometheus.Desc
	second string // the value of its second label, if any
	of     func(c *host.Counts) uint64
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("millrace_"+name, help, labels, nil)
}

// The descriptions.
var (
	made        = newDesc("calls_made_total", "Calls that were made, rejected ones included.", "toolset")
	resolved    = newDesc("calls_total", "Calls that were resolved.", "toolset", "outcome")
	invocations = newDesc("invocations_total", "Requests that posted a call, repetitions included.", "toolset")
	dropped     = newDesc("callbacks_dropped_total", "Callbacks that were dropped, refused or put off.", "toolset", "reason")
	forwarded   = newDesc("callbacks_forwarded_total", "Callbacks that were handed on to where their session lives now.", "toolset")
	events      = newDesc("events_total", "Events of subscriptions.", "toolset")
	noEvents    = newDesc("events_dropped_total", "Events of subscriptions that were dropped.", "toolset", "reason")
	views       = newDesc("views_total", "Views that were handed to the surface.", "toolset")

	requests  = newDesc("model_requests_total", "Times that a model was asked.", "model")
	failures  = newDesc("model_failures_total", "Times that a model was asked and failed.", "model")
	fallbacks = newDesc("model_fallbacks_total", "Rounds in which another model was asked in the place of this one.", "model")
	tokens    = newDesc("model_tokens_total", "Tokens that a model has read or written, as its service counts.", "model", "kind")

	prompts     = newDesc("prompts_open", "What users are asked by this process.")
	memory      = newDesc("memory_bytes", "Memory in use, as the garbage collector found last.")
	memoryBound = newDesc("memory_limit_bytes", "Memory that may be in use: when nine tenths are, no new calls are taken.")
	bodies      = newDesc("bodies_bytes", "Messages that are being read or taken in.")
	bodiesBound = newDesc("bodies_limit_bytes", "Messages that may be read or taken in at once.")
)

var counters = []counter{
	{made, "", func(c *host.Counts) uint64 { return c.Calls }},
	{resolved, "result", func(c *host.Counts) uint64 { return c.Results }},
	{resolved, "failure", func(c *host.Counts) uint64 { return c.Failures }},
	{invocations, "", func(c *host.Counts) uint64 { return c.Attempts }},
	{dropped, "duplicate", func(c *host.Counts) uint64 { return c.Duplicates }},
	{dropped, "late", func(c *host.Counts) uint64 { return c.Late }},
	{dropped, "repeated", func(c *host.Counts) uint64 { return c.Repeated }},
	{dropped, "malformed", func(c *host.Counts) uint64 { return c.Malformed }},
	{dropped, "forged", func(c *host.Counts) uint64 { return c.Forged }},
	{dropped, "busy", func(c *host.Counts) uint64 { return c.Busy }},
	{forwarded, "", func(c *host.Counts) uint64 { return c.Forwarded }},
	{events, "", func(c *host.Counts) uint64 { return c.Events }},
	{noEvents, "unsubscribed", func(c *host.Counts) uint64 { return c.Unsubscribed }},
	{noEvents, "left_out", func(c *host.Counts) uint64 { return c.LeftOut }},
	{views, "", func(c *host.Counts) uint64 { return c.Views }},
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{made, resolved, invocations, dropped, forwarded, events, noEvents, views, requests, failures, fallbacks, tokens, prompts, memory, memoryBound, bodies, bodiesBound} {
		to <- d
	}
}

// Collect sends the figures of one [host.Stats].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.rt.Stats()
	collectCounts(to, "", &s.Others)
	for _, toolset := range slices.Sorted(maps.Keys(s.Toolsets)) {
		counts := s.Toolsets[toolset]
		collectCounts(to, strings.ToValidUTF8(toolset, "\uFFFD"), &counts)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Models)) {
		counts, name := s.Models[name], strings.ToValidUTF8(name, "\uFFFD")
		count := func(d *prometheus.Desc, value uint64, kind ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), append([]string{name}, kind...)...)
		}
		count(requests, counts.Requests)
		count(failures, counts.Failures)
		count(fallbacks, counts.Fallbacks)
		count(tokens, uint64(max(0, counts.Usage.Input)), "input")
		count(tokens, uint64(max(0, counts.Usage.Cached)), "cached")
		count(tokens, uint64(max(0, counts.Usage.Output)), "output")
	}
	gauge := func(d *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	gauge(prompts, int64(s.Prompts))
	gauge(memory, s.Memory.Bytes)
	gauge(bodies, s.Bodies.Bytes)
	if s.Memory.Bound > 0 {
		gauge(memoryBound, s.Memory.Bound)
	}
	if s.Bodies.Bound > 0 {
		gauge(bodiesBound, s.Bodies.Bound)
	}
}

func collectCounts(to chan<- prometheus.Metric, toolset string, counts *host.Counts) {
	for _, m := range counters {
		labels := []string{toolset}
		if m.second != "" {
			labels = append(labels, m.second)
		}
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.of(counts)), labels...)
	}
}
