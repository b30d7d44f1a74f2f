-- Posts one body over and over; prints one JSON line at the end. wrk -s review.lua URL -- FILE [close]
function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  wrk.headers["Content-Type"] = "application/json"
  if args[2] == "close" then wrk.headers["Connection"] = "close" end
  file:close()
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.3f,"p50":%.3f,"p99":%.3f,"max":%.3f,"errors":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, e.connect + e.read + e.write + e.status + e.timeout))
end
