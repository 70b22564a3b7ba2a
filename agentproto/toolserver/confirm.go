package toolserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/millrace/millrace/agentproto/internal/authorize"
)

// A code has two numbers of two digits, each to be picked out of 25: a stranger who
// has not seen it guesses it once in 625 times. After a wrong guess there is a pause.
const (
	codeParts   = 2
	codeChoices = 25
)

// noneOfThem is the choice of somebody who has not seen the code.
const noneOfThem = "None of these, or I did not authorize anything"

// newUnconfirmed draws the code for a token, and what it is to be picked from: a function that
// runs again asks the same.
func newUnconfirmed(t *UserToken) *unconfirmed {
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
		panic(err) // it does not happen, see package rand
	}
	return int(i.Int64())
}

// confirm has the user of the conversation pick out the code that the page at the
// end of the authorization has shown (case O24): so whoever authorized is whoever
// asked, or was asked by him to say the code.
func (c *call) confirm(id string) (authorize.Class, error) {
	u := c.server.unconfirmed.get(id)
	if u == nil {
		return authorize.Lost, nil
	}
	class, err := c.pick(u)
	if err != nil && !errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrNotAsked) && !errors.Is(err, ErrBadAnswer) {
		return "", err // the call is over, or goes on elsewhere
	}
	if err != nil {
		class = authorize.Declined
	}
	if class != authorize.Good {
		c.server.log.Warn("authorization not confirmed", "provider", c.tool.provider.ID)
	}
	// A number that was wrong counts, also if the call is cancelled meanwhile.
	told, failed := c.server.flow.Authorize(c.server.ctx, c.tokenKey.Runtime, authorize.In{Confirm: &authorize.Confirm{ID: id, Class: class}})
	if err == nil {
		err = failed
	}
	return told.Class, err
}

// pick asks for the numbers of a code.
func (c *call) pick(u *unconfirmed) (authorize.Class, error) {
	for i, numbers := range u.numbers {
		var choices []string
		for _, n := range numbers {
			choices = append(choices, strconv.Itoa(n))
		}
		prompt := fmt.Sprintf("The page after the authorization shows %d numbers. Which is number %d?", codeParts, i+1)
		picked, err := Choose(c.ctx, prompt, append(choices, noneOfThem), len(choices))
		switch {
		case err != nil:
			return "", err
		case picked == len(choices):
			return authorize.Declined, nil
		case numbers[picked] != u.code[i]:
			return authorize.Wrong, nil
		}
	}
	return authorize.Good, nil
}
