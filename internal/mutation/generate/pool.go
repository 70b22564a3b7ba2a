package main

import "sync"

// A pool runs a limited number of functions at once. After one has failed, it
// runs no more.
type pool struct {
	free chan struct{}
	all  sync.WaitGroup
	mu   sync.Mutex
	err  error // of the first function that failed
}

func newPool(workers int) *pool { return &pool{free: make(chan struct{}, max(1, workers))} }

// do runs a function as soon as a worker is free.
func (p *pool) do(f func() error) {
	p.free <- struct{}{}
	p.all.Go(func() {
		defer func() { <-p.free }()
		if p.failed() != nil {
			return
		}
		if err := f(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err == nil {
				p.err = err
			}
		}
	})
}

// failed returns the first error so far.
func (p *pool) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait waits for all functions, and returns the first error.
func (p *pool) wait() error {
	p.all.Wait()
	return p.err
}
