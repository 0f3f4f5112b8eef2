package web

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const maxTries = 3

// retry repeats a request that changes nothing while the answer is 429 or 5xx
// and ctx's deadline leaves room for the pause. An answer is never given up for
// an error: the last one is returned as it is. An error of the network is
// final.
func retry(ctx context.Context, firstWait time.Duration, send func() (*http.Response, error)) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := send()
		if err != nil || try == maxTries || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
			return resp, err
		}
		pause := firstWait << (2 * (try - 1))
		pause += rand.N(pause/2 + 1) // so that many callers do not come back together
		if n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
			pause = max(pause, time.Duration(n)*time.Second)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return resp, nil
		}
		resp.Body.Close()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
