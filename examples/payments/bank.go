package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// post asks the bank at a URL once. One that gives no answer, or 500 and more, may do better later.
func post(ctx context.Context, url, key string, cents int64) Outcome {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(fmt.Sprint(cents)))
	if err != nil {
		return Outcome{Refused: err.Error()}
	}
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return Outcome{Refused: err.Error(), Again: true}
	}
	defer answer.Body.Close()
	number, err := io.ReadAll(io.LimitReader(answer.Body, 100))
	if err != nil || answer.StatusCode != http.StatusOK {
		return Outcome{Refused: answer.Status, Again: err != nil || answer.StatusCode >= 500}
	}
	return Outcome{Number: string(number)}
}

// pretend is a bank to try payments with, which is busy when it hears of a charge first.
func pretend() http.HandlerFunc {
	var heard sync.Map
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if _, again := heard.LoadOrStore(key, true); !again {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "charge of %s", key)
	}
}
