package toolserver

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// A code has two numbers of two digits, each to be picked out of 25: a stranger who
// has not seen it guesses it once in 625 times, and has one try for each time that
// somebody authorizes for him.
const (
	codeParts   = 2
	codeChoices = 25
)

// noneOfThem is the choice of somebody who has not seen the code.
const noneOfThem = "None of these, or I did not authorize anything"

// newCode returns a random code.
func newCode() (code [codeParts]int) {
	for i := range code {
		code[i] = 10 + below(90)
	}
	return code
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
func (c *call) confirm(code [codeParts]int) error {
	for i, part := range code {
		numbers := []int{part}
		for len(numbers) < codeChoices {
			if n := 10 + below(90); !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		var choices []string
		for _, n := range numbers {
			choices = append(choices, strconv.Itoa(n))
		}
		prompt := fmt.Sprintf("The page after the authorization shows %d numbers. Which is number %d?", codeParts, i+1)
		picked, err := Choose(c.ctx, prompt, append(choices, noneOfThem), len(choices))
		if err != nil {
			return err
		}
		if picked == len(choices) || numbers[picked] != part {
			c.server.log.Warn("authorization not confirmed", "provider", c.tool.provider.ID)
			return errNotConfirmed
		}
	}
	return nil
}
