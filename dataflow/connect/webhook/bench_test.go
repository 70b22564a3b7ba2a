package webhook_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/connect/webhook"
)

// BenchmarkSink posts bodies of 256 bytes, one after the other.
func BenchmarkSink(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	body := bytes.Repeat([]byte("v"), 256)
	var raw float64 // requests a second: the best of the runs
	report := func(b *testing.B, n int) {
		rate := float64(b.N*n) / b.Elapsed().Seconds()
		b.ReportMetric(rate/1000, "kposts/s")
		if strings.HasSuffix(b.Name(), "/raw") {
			raw = max(raw, rate)
			return
		}
		b.ReportMetric(rate/raw, "of-raw")
	}
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			resp, err := http.Post(server.URL, "application/json", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		report(b, 1)
	})
	xs := make([]int, 100)
	post := func(b *testing.B, s webhook.Sink[int]) {
		s.URL, s.Encode = server.URL, func(uint64, int) ([]byte, error) { return body, nil }
		w := open(b, s)
		last := uint64(0)
		for b.Loop() {
			if _, err := w.Write(b.Context(), last+1, xs); err != nil {
				b.Fatal(err)
			}
			last += uint64(len(xs))
		}
		report(b, len(xs))
	}
	b.Run("millrace", func(b *testing.B) { post(b, webhook.Sink[int]{}) })
	b.Run("signed", func(b *testing.B) {
		post(b, webhook.Sink[int]{Secrets: []string{"whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"}})
	})
	b.Run("8 at a time", func(b *testing.B) { post(b, webhook.Sink[int]{Parallel: 8}) })
}
