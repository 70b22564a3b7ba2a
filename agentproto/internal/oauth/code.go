package oauth

import (
	"crypto/rand"
	"math/big"
	"slices"
	"sync"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A code consists of two numbers of two digits, each to be picked out of 25. A stranger who has not
// seen the code guesses it once in 625 times. A wrong guess starts a pause.
const (
	codeParts   = 2
	codeChoices = 25
)

// newUnconfirmed generates the code for a token, and the lists to pick it from. They are stored, so
// that a function that runs again asks the same.
func newUnconfirmed(t *vault.Token) *unconfirmed {
	u := &unconfirmed{token: t}
	for i := range u.code {
		u.code[i] = 10 + below(90)
		numbers := []int{u.code[i]}
		for len(numbers) < codeChoices {
			if n := 10 + below(90); !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		u.numbers[i] = numbers
	}
	return u
}

// below returns a random number from 0 to n-1.
func below(n int64) int {
	i, err := rand.Int(rand.Reader, big.NewInt(n))
	if err != nil {
		panic(err) // it does not fail, see package rand
	}
	return int(i.Int64())
}

// An unconfirmed is a token that is only in memory, with its code.
type unconfirmed struct {
	token   *vault.Token
	code    [codeParts]int
	numbers [codeParts][]int // to pick the code from
}

// Numbers returns the lists from which the user of an unconfirmed authorization picks the code, one
// number from each list, and the code. It returns nil if there is no such authorization.
func (c *Client) Numbers(id string) (lists [][]int, code []int) {
	u := c.unconfirmed.get(id)
	if u == nil {
		return nil, nil
	}
	return u.numbers[:], u.code[:]
}

type unconfirmeds struct {
	mu  sync.Mutex
	all map[string]*unconfirmed
}

func (us *unconfirmeds) put(id string, t *vault.Token) {
	us.mu.Lock()
	defer us.mu.Unlock()
	if us.all == nil {
		us.all = make(map[string]*unconfirmed)
	}
	us.all[id] = newUnconfirmed(t)
}

// get returns the unconfirmed token of an authorization, or nil.
func (us *unconfirmeds) get(id string) *unconfirmed {
	us.mu.Lock()
	defer us.mu.Unlock()
	return us.all[id]
}

// take is like get, and removes the token.
func (us *unconfirmeds) take(id string) *unconfirmed {
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.all[id]
	delete(us.all, id)
	return u
}
