package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPool checks that a pool runs as many functions at once as it has workers, starts none after the first
// error, and returns that error when all have ended.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("wrong")
		p := newPool(2)
		begun := make(chan int, 10)
		began := time.Now()
		for i := range 4 {
			p.do(func() error { begun <- i; time.Sleep(time.Second); return nil })
		}
		p.do(func() error { begun <- 4; time.Sleep(time.Second); return wrong })
		p.do(func() error { begun <- 5; time.Sleep(2 * time.Second); return errors.New("later") })
		p.do(func() error { begun <- 6; return nil })
		if err := p.wait(); err != wrong || len(begun) != 6 || time.Since(began) != 4*time.Second {
			t.Errorf("%d functions began, and it ended after %v: %v", len(begun), time.Since(began), err)
		}
	})
}
