-- Creates pods from a template in which NAME and NS stand for name and namespace. wrk -s create.lua URL -- FILE NS TOKEN
local before, after
local number, run = 0, tostring(os.time())
function init(args)
  local file = assert(io.open(args[1], "rb"))
  local text = file:read("*a"):gsub('"NS"', '"' .. args[2] .. '"')
  file:close()
  local from, to = text:find('"NAME"', 1, true)
  before, after = text:sub(1, from - 1), text:sub(to + 1)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer " .. args[3]
  wrk.headers["Accept"] = "application/json"
end
function request()
  number = number + 1
  return wrk.format(nil, nil, nil, before .. '"p-' .. run .. "-" .. number .. '"' .. after)
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.3f,"p50":%.3f,"p99":%.3f,"max":%.3f,"errors":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, e.connect + e.read + e.write + e.status + e.timeout))
end
